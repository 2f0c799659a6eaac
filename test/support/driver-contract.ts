import { afterEach, describe, expect, it } from 'vitest';
import type { Driver, LaunchRequest } from '../../src/providers/driver.ts';
import type { LaunchOutcome } from '../../src/scheduler/rpc.ts';
import { idOf, letPass } from './driver-calls.ts';
import type { ContractOptions, DriverUnderTest, SeenMachine } from './driver-under-test.ts';
import type { Accidents } from './fakes/accidents.ts';

/** The secret that each machine gets, so that the tests see leaks of it. */
const SECRET = 'the-secret-of-this-machine';
const PREFIX = 'wv-abc123-';
const nameOf = (id: string) => `${PREFIX}small-${id.padStart(10, '0')}`;

/** What every driver promises, whatever its provider does. @param setUp makes a driver of a provider without machines */
export function driverContract(
  name: string,
  setUp: () => DriverUnderTest | Promise<DriverUnderTest>,
  {
    instance_type = 'local',
    image = null,
    gpus = 0,
    impossible = {},
    tellsExitCodes = true,
  }: ContractOptions = {},
): void {
  let current: DriverUnderTest | undefined;
  afterEach(async () => {
    await current?.driver.close?.();
    await current?.close?.();
    current = undefined;
  });

  interface Tools extends DriverUnderTest {
    launch(id: string, more?: Partial<LaunchRequest>): Promise<LaunchOutcome>;
    /** One order. */
    terminate(id: string, externalId?: string | null): Promise<LaunchOutcome>;
    /** Orders until it is gone. */
    end(id: string, externalId?: string | null): Promise<LaunchOutcome>;
    list(): ReturnType<Driver['list']>;
    /** Returns the machines of this name that exist at the provider. */
    named(id: string): SeenMachine[];
    /** Gives the order as the scheduler does until an answer is final: at least a minute apart, asking by name. */
    insist(give: (isRepeated: boolean) => Promise<LaunchOutcome>): Promise<LaunchOutcome>;
  }

  /** @param accidents that this test switches on: it is skipped where one of them is impossible */
  function promise(title: string, accidents: (keyof Accidents)[], run: (tools: Tools) => Promise<void>) {
    it.skipIf(accidents.some((accident) => accident in impossible))(title, async () => {
      const made = await setUp();
      current = made;
      const { driver, provider, clock } = made;
      const settle = <T>(call: Promise<T>) => letPass(clock, call);
      const request = (id: string): LaunchRequest => ({
        name: nameOf(id),
        may_exist: false,
        instance_type,
        gpus,
        disk_gb: null,
        price_per_hour: null,
        image,
        env: { CASOLA_INSTANCE_ID: nameOf(id), CASOLA_API_TOKEN: SECRET },
      });
      const terminate = (id: string, external_id: string | null = null) =>
        settle(driver.terminate({ name: nameOf(id), external_id }));
      const insist: Tools['insist'] = async (give) => {
        for (let times = 0; ; times++) {
          const outcome = await give(times > 0);
          const isOver = outcome.kind !== 'unknown' && outcome.kind !== 'terminating';
          if (isOver || times === 10) return outcome;
          await clock.advance(61_000);
        }
      };
      await run({
        ...made,
        launch: async (id, more) => withoutSecret(await settle(driver.launch({ ...request(id), ...more }))),
        terminate,
        list: () => settle(driver.list(PREFIX)),
        named: (id) => provider.alive.filter((machine) => machine.name === nameOf(id)),
        insist,
        end: (id, externalId) => insist(() => terminate(id, externalId)),
      });
    });
  }

  describe(`contract of drivers: ${name}`, () => {
    promise('a machine is launched under its name, with its environment, and listed', [], async (t) => {
      const outcome = await t.launch('1');
      expect(outcome).toMatchObject({ kind: 'launched' });
      const [machine, ...others] = t.named('1');
      expect(others).toEqual([]);
      expect(machine!.env).toMatchObject({ CASOLA_INSTANCE_ID: nameOf('1'), CASOLA_API_TOKEN: SECRET });
      const listed = await t.list();
      expect(listed).toHaveLength(1);
      expect(listed[0]).toMatchObject({ name: nameOf('1') });
      expect(outcome).toMatchObject({ external_id: listed[0]!.external_id });
    });

    promise('a launch that is ordered again answers with the machine there is', [], async (t) => {
      const first = await t.launch('1');
      const second = await t.launch('1', { may_exist: true });
      expect(second).toMatchObject({ kind: 'launched', external_id: idOf(first) });
      expect(t.named('1')).toHaveLength(1);
    });

    promise('a termination ends its machine alone, and may be ordered again', [], async (t) => {
      const first = await t.launch('1');
      await t.launch('2');
      expect(await t.end('1', idOf(first))).toEqual({ kind: 'terminated' });
      expect(await t.terminate('1', idOf(first))).toEqual({ kind: 'terminated' });
      expect(t.provider.alive.map((machine) => machine.name)).toEqual([nameOf('2')]);
      expect(await t.list()).toMatchObject([{ name: nameOf('2') }]);
    });

    promise('what was told to end is not gone before it is', ['end_takes_ms'], async (t) => {
      t.provider.accidents.end_takes_ms = 50_000;
      const id = idOf(await t.launch('1'));
      expect(await t.terminate('1', id)).toEqual({ kind: 'terminating' });
      await t.clock.advance(40_000);
      expect(await t.terminate('1', id)).toEqual({ kind: 'terminating' });
      expect(await t.list()).toMatchObject([{ external_id: id }]);
      expect(t.named('1')).toHaveLength(1);
      await t.clock.advance(15_000);
      expect(await t.terminate('1', id)).toEqual({ kind: 'terminated' });
      expect(await t.list()).toEqual([]);
    });

    promise('a machine is terminated by its name where its id is not known', [], async (t) => {
      await t.launch('1');
      await t.launch('11');
      expect(await t.end('1')).toEqual({ kind: 'terminated' });
      expect(t.provider.alive.map((machine) => machine.name)).toEqual([nameOf('11')]);
    });

    promise('what never existed is terminated', [], async (t) => {
      expect(await t.terminate('9')).toEqual({ kind: 'terminated' });
    });

    promise('a list shows all machines of the installation and none of others', [], async (t) => {
      const ids = Array.from({ length: 60 }, (_, index) => String(index + 1));
      for (const id of ids) await t.launch(id);
      const names = [`wv-other0-small-0000000001`, 'somebody-elses'];
      for (const name of names) await t.launch('0', { name });
      const listed = await t.list();
      expect(listed.map((machine) => machine.name).sort()).toEqual(ids.map(nameOf).sort());
    });

    promise('a provider without capacity is told from one that refuses', ['no_capacity'], async (t) => {
      t.provider.accidents.no_capacity = 1;
      expect(await t.launch('1')).toMatchObject({ kind: 'no_capacity' });
      expect(t.provider.alive).toEqual([]);
      expect(await t.launch('1')).toMatchObject({ kind: 'launched' });
    });

    promise(
      'a create that failed and made the machine does not make another',
      ['created_but_5xx'],
      async (t) => {
        t.provider.accidents.created_but_5xx = 1;
        const outcome = await t.insist((may_exist) => t.launch('1', { may_exist }));
        expect(outcome).toMatchObject({ kind: 'launched' });
        expect(t.named('1')).toHaveLength(1);
        expect(idOf(outcome)).toBe((await t.list())[0]!.external_id);
      },
    );

    promise(
      'a refusal leaves nothing behind, also where it made a machine',
      ['created_but_error'],
      async (t) => {
        t.provider.accidents.created_but_error = 1;
        const outcome = await t.launch('1');
        expect(['no_capacity', 'rejected']).toContain(outcome.kind);
        expect(t.provider.alive).toEqual([]);
      },
    );

    promise(
      'what a refusal left behind is listed when it cannot be ended',
      ['created_but_error', 'destroy_fails'],
      async (t) => {
        t.provider.accidents.created_but_error = 1;
        t.provider.accidents.destroy_fails = 20;
        expect(['unknown', 'launched']).toContain((await t.launch('1')).kind);
        expect(await t.list()).toHaveLength(1);
      },
    );

    promise('a storm of 429 makes no second machine', ['throttled'], async (t) => {
      t.provider.accidents.throttled = 5;
      const outcome = await t.insist((may_exist) => t.launch('1', { may_exist }));
      expect(outcome).toMatchObject({ kind: 'launched' });
      expect(t.named('1')).toHaveLength(1);
    });

    promise('calls keep a least interval', ['min_interval_ms'], async (t) => {
      t.provider.accidents.min_interval_ms = 4500;
      const ids = ['1', '2', '3', '4'];
      const launches = ids.map((id) => t.insist((may_exist) => t.launch(id, { may_exist })));
      for (const outcome of await Promise.all(launches)) expect(outcome).toMatchObject({ kind: 'launched' });
      expect(t.provider.alive).toHaveLength(4);
      const ends = ids.map((id) => t.end(id));
      for (const outcome of await Promise.all(ends)) expect(outcome).toEqual({ kind: 'terminated' });
      expect(t.provider.alive).toEqual([]);
    });

    promise('a list that lags hides nothing for good', ['list_lag_ms'], async (t) => {
      t.provider.accidents.list_lag_ms = 60_000;
      await t.launch('1');
      await t.clock.advance(61_000);
      expect(await t.list()).toMatchObject([{ name: nameOf('1') }]);
      expect(await t.launch('1', { may_exist: true })).toMatchObject({ kind: 'launched' });
      expect(t.named('1')).toHaveLength(1);
    });

    promise('a start that takes minutes is a start', ['start_takes_ms'], async (t) => {
      t.provider.accidents.start_takes_ms = 300_000;
      await t.launch('1');
      expect(await t.list()).toMatchObject([{ state: 'starting' }]);
      await t.clock.advance(301_000);
      expect(await t.list()).toMatchObject([{ state: 'running' }]);
    });

    promise('a machine stuck in loading is listed and can be ended', ['stuck_loading'], async (t) => {
      t.provider.accidents.stuck_loading = true;
      const outcome = await t.launch('1');
      await t.clock.advance(3600_000);
      expect(await t.list()).toMatchObject([{ state: 'starting', started_at: null }]);
      expect(await t.end('1', idOf(outcome))).toEqual({ kind: 'terminated' });
      expect(t.provider.alive).toEqual([]);
    });

    promise('a container that ended is listed as ended', [], async (t) => {
      await t.launch('1');
      await t.provider.end(t.named('1')[0]!, 9, 'the model does not exist');
      expect(await t.list()).toMatchObject([{ state: 'ended', ...(tellsExitCodes ? { exit_code: 9 } : {}) }]);
      expect(await t.end('1')).toEqual({ kind: 'terminated' });
      expect(t.provider.alive).toEqual([]);
    });

    promise('a container that is started for ever can be ended', ['restarts_for_ever'], async (t) => {
      t.provider.accidents.restarts_for_ever = true;
      const outcome = await t.launch('1');
      t.provider.end(t.named('1')[0]!, 9);
      await t.clock.advance(10_000);
      expect(await t.list()).toMatchObject([{ external_id: idOf(outcome) }]);
      expect(await t.end('1', idOf(outcome))).toEqual({ kind: 'terminated' });
      expect(await t.list()).toEqual([]);
    });

    promise('a machine that vanished is not listed as running, and is terminated', [], async (t) => {
      const outcome = await t.launch('1');
      await t.launch('2');
      await t.provider.vanish(t.named('1')[0]!);
      const alive = (await t.list()).filter(({ state }) => state !== 'ended');
      expect(alive).toMatchObject([{ name: nameOf('2') }]);
      expect(await t.terminate('1', idOf(outcome))).toEqual({ kind: 'terminated' });
    });

    promise('a destroy that fails is not taken for an end', ['destroy_fails'], async (t) => {
      const outcome = await t.launch('1');
      t.provider.accidents.destroy_fails = Number.POSITIVE_INFINITY;
      expect(await t.terminate('1', idOf(outcome))).toMatchObject({ kind: 'unknown' });
      expect(await t.list()).toHaveLength(1);
      t.provider.accidents.destroy_fails = 2;
      expect(await t.end('1', idOf(outcome))).toEqual({ kind: 'terminated' });
      expect(t.provider.alive).toEqual([]);
    });

    promise('an empty balance is a refusal', ['no_money'], async (t) => {
      t.provider.accidents.no_money = true;
      expect(await t.launch('1')).toMatchObject({
        kind: 'rejected',
        detail: expect.stringMatching(/balance|money|credit|fund/i),
      });
    });

    promise("times are the provider's own", ['clock_skew_ms'], async (t) => {
      t.provider.accidents.clock_skew_ms = -600_000;
      await t.launch('1');
      const [machine] = await t.list();
      const by = t.clock.now() - 600_000;
      expect(Math.abs(machine!.created_at! - by)).toBeLessThan(60_000);
    });

    promise('a provider that does not answer has an unknown effect and no list', ['is_down'], async (t) => {
      const outcome = await t.launch('1');
      t.provider.accidents.is_down = true;
      expect(await t.launch('2')).toMatchObject({ kind: 'unknown' });
      expect(await t.launch('1', { may_exist: true })).toMatchObject({ kind: 'unknown' });
      expect(await t.terminate('1', idOf(outcome))).toMatchObject({ kind: 'unknown' });
      await expect(t.list()).rejects.toThrow();
      t.provider.accidents.is_down = false;
      expect(await t.list()).toHaveLength(1);
    });

    promise('a state that the driver does not know is no end', ['odd_state'], async (t) => {
      await t.launch('1');
      t.provider.accidents.odd_state = true;
      expect(await t.list()).toMatchObject([{ state: 'unknown' }]);
    });
  });
}

function withoutSecret(outcome: LaunchOutcome): LaunchOutcome {
  expect(JSON.stringify(outcome)).not.toContain(SECRET);
  return outcome;
}
