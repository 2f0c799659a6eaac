import { describe, expect, it } from 'vitest';
import { decide, EMPTY_STATE } from '../../../src/scheduler/decide.ts';
import type { Launch } from '../../../src/scheduler/launch.ts';
import type { Decided, Observed } from '../../../src/scheduler/rule-types.ts';
import { decideAfter, demand, launch, MINUTE, machinesOf, NOW, observed, pool, session } from './observe.ts';

const TWO_KINDS = {
  machines: [
    { provider: 'here', instance_type: 'small', gpus: 1, price_per_hour: 1 },
    { provider: 'there', instance_type: 'big', gpus: 1, price_per_hour: 3 },
  ],
};
const BOTH = ['here', 'there'].map((name) => ({
  name,
  max: null,
  is_fresh: true,
  prices: {},
  tells_prices: false,
}));

const waiting = (spec = {}, jobs = 8) => ({
  ...pool(spec),
  demand: demand({ waiting: jobs, submitted: jobs }),
});
const now = (of: Observed) => decide(of, EMPTY_STATE, NOW);
const launched = ({ decisions }: Decided) =>
  decisions.flatMap((one) => (one.kind === 'launch' ? [one.machine.instance_type] : []));
const failed = (given: Partial<Launch>, ago = 1000) =>
  launch('failed', {
    state_at: NOW - ago,
    terminating_at: NOW - ago,
    intended_at: NOW - ago - 500,
    ready_at: null,
    ...given,
  });

describe('what the rule launches', () => {
  it('tells with each launch why, and from which numbers', () => {
    const { decisions, pools } = now(observed({ pools: [waiting({}, 24)] }));
    expect(decisions[0]).toMatchObject({
      reason: expect.stringContaining('24 wait'),
      inputs: expect.stringContaining('waiting 24'),
    });
    expect(pools[0]?.text).toMatch(/2 workers launched\.$/);
  });

  it('launches no more than have a slot’s work each, and none for callers where only batches start workers', () => {
    const few = waiting({ slots: 1 }, 1);
    expect(launched(now(observed({ pools: [few] })))).toHaveLength(1);
    const batchOnly = now(observed({ pools: [waiting({ batch_only: true })] }));
    expect(launched(batchOnly)).toEqual([]);
    expect(batchOnly.pools[0]?.text).toMatch(
      /^0 workers wanted: workers are launched for batches alone, and \d+ other jobs wait\.$/,
    );
  });

  it('stays within max, counting what drains and ends, and keeps min without work', () => {
    const alive = [launch('draining'), launch('terminating')];
    const dismissed = alive.map(({ id }) => id);
    const full = observed({ pools: [waiting({ max: 2 })], launches: alive, dismissed });
    expect(launched(now(full))).toEqual([]);
    expect(launched(now(observed({ pools: [pool({ min: 2 })] })))).toHaveLength(2);
  });

  it('goes to the next machine when one is sold out, and asks again after a while when all are', () => {
    const sold = failed({ cause: 'no_capacity', intended_at: NOW - 2000 });
    const of = observed({ pools: [waiting(TWO_KINDS)], providers: BOTH, launches: [sold] });
    expect(new Set(launched(now(of)))).toEqual(new Set(['big']));
    const all = [sold, failed({ cause: 'no_capacity', provider: 'there', instance_type: 'big' })];
    const none = now({ ...of, launches: all });
    expect(launched(none)).toEqual([]);
    expect(none.pools[0]?.text).toMatch(/none of its machines free, asked again in \d+ s/);
    expect(launched(decide({ ...of, launches: all }, EMPTY_STATE, NOW + 31_000))).not.toEqual([]);
  });

  it('takes the cheapest per token first among those that were measured', () => {
    const speeds = { 'chat/here/small': 100, 'chat/there/big': 1000 };
    const of = observed({ pools: [waiting(TWO_KINDS)], providers: BOTH });
    const decided = decide(of, { ...EMPTY_STATE, tokens_per_second: speeds }, NOW);
    expect(launched(decided)[0]).toBe('big');
    expect(decided.pools[0]?.machines[0]).toMatchObject({ instance_type: 'big', tokens_per_second: 1000 });
    expect(launched(now(of))[0]).toBe('small');
  });

  it('launches nothing where the newest list is old, and elsewhere instead', () => {
    const [here, there] = BOTH;
    const providers = [{ ...here!, is_fresh: false }, there!];
    const of = observed({ pools: [waiting(TWO_KINDS)], providers });
    expect(new Set(launched(now(of)))).toEqual(new Set(['big']));
    expect(launched(now({ ...of, pools: [waiting()] }))).toEqual([]);
  });

  it('stops at a budget, serves pools without any worker first, and says so', () => {
    const second = { ...waiting(), config_id: 'code' };
    const first = waiting({}, 200);
    const running = launch('ready');
    const of = observed({
      pools: [first, second],
      launches: [running],
      machines: machinesOf([session(running, { running: 4 })]),
      budget: { per_hour: 2 },
    });
    const decided = now(of);
    expect(decided.decisions).toMatchObject([{ kind: 'launch', config_id: 'code' }]);
    expect(decided).toMatchObject({ stopped_by_budget: 'hour', price_per_hour: 2 });
    expect(decided.pools[0]?.text).toContain('the budget of $2 an hour is reached');
    const day = now(observed({ pools: [waiting()], budget: { per_day: 10 }, spent_today: 9.8 }));
    expect(day).toMatchObject({ decisions: [], stopped_by_budget: 'day' });
  });

  it('drains everything before a day’s budget is overspent', () => {
    const mine = launch('ready');
    const machines = machinesOf([session(mine, { running: 4 })]);
    const of = observed({
      pools: [waiting()],
      launches: [mine],
      machines,
      budget: { per_day: 10 },
      spent_today: 9.95,
    });
    expect(now(of)).toMatchObject({ decisions: [{ kind: 'drain' }], stopped_by_budget: 'day' });
  });

  it('begins again slowly after a failed start, one at a time', () => {
    const exited = failed({ cause: 'exited', exit_code: 4 });
    const of = observed({ pools: [waiting()], launches: [exited] });
    expect(now(of).pools[0]?.text).toContain('The next start is tried in 14 s');
    expect(launched(decide(of, EMPTY_STATE, NOW + 16_000))).toHaveLength(1);
  });

  it('stops for good at once for what no start mends, and after five failures in a row', () => {
    const bad = observed({
      pools: [waiting()],
      launches: [failed({ cause: 'exited', exit_code: 9 }, 60 * MINUTE)],
    });
    expect(now(bad).decisions).toEqual([]);
    expect(now(bad).pools[0]?.breaker).toContain('exit code 9');
    const five = [1, 2, 3, 4, 5].map((n) => failed({ cause: 'start_deadline' }, n * 60 * MINUTE));
    const stopped = observed({ pools: [waiting()], launches: five });
    expect(now(stopped).pools[0]?.breaker).toContain('5 starts in a row failed');
    const forgiven = { ...stopped, pools: [{ ...waiting(), forgiven_at: NOW }] };
    expect(launched(now(forgiven))).not.toEqual([]);
    // Side by side they are one failure; and one that worked since makes good for all.
    const atOnce = five.map((one) => ({ ...one, intended_at: NOW - 20 * 60 * MINUTE }));
    expect(now({ ...stopped, launches: atOnce }).pools[0]?.breaker).toBeNull();
    const sound = launch('gone', { ready_at: NOW - 40 * MINUTE, terminating_at: NOW - 30 * MINUTE });
    expect(now({ ...stopped, launches: [...five, sound] }).pools[0]?.breaker).toBeNull();
  });

  it('takes exit code 8 for a failure of the machine, and tries another instance type at once', () => {
    const bad = failed({ cause: 'exited', exit_code: 8 });
    const of = observed({ pools: [waiting(TWO_KINDS)], providers: BOTH, launches: [bad] });
    const decided = now(of);
    expect(decided.pools[0]?.breaker).toBeNull();
    expect(launched(decided)[0]).toBe('big');
  });

  it('starts nothing for one line of a batch, one for much, and one in any case when its time has come', () => {
    const batch = (lines: number, hours: number) => {
      const batches = [{ lines, ends_at: NOW + hours * 60 * MINUTE }];
      return observed({ pools: [{ ...pool(), demand: demand({ batches }) }] });
    };
    expect(launched(now(batch(1, 24)))).toEqual([]);
    expect(now(batch(1, 24)).pools[0]).toMatchObject({
      wanted: 0,
      batch_wait: { lines: 1, until: NOW + 24 * 60 * MINUTE - 2 * 180_000 - 2500 },
      text: '0 workers wanted: 1 line of batches waits, 10 of the 2160 slot-seconds that pay for a start; one is launched for them at 2026-01-06 11:53 UTC at the latest.',
    });
    expect(launched(now(batch(5000, 24)))).toHaveLength(1);
    expect(launched(now(batch(1, 0.1)))).toHaveLength(1);
    expect(launched(now(batch(5000, 5)))).toHaveLength(2);
  });

  it('counts on a start only for so long as starts take', () => {
    const hung = launch('accepted', { intended_at: NOW - 9.5 * MINUTE, accepted_at: NOW - 9.4 * MINUTE });
    const of = observed({ pools: [waiting({}, 1)], launches: [hung] });
    expect(decideAfter(5000, of).decisions.map(({ kind }) => kind)).toEqual(['launch']);
  });

  it('does not wait for hours for a start since the clock has jumped during another', () => {
    const ago = (minutes: number) => NOW - minutes * MINUTE;
    const before = launch('gone', { intended_at: ago(600), ready_at: ago(120) });
    const hung = launch('accepted', { intended_at: ago(95), accepted_at: ago(94) });
    const of = observed({ pools: [waiting({}, 1)], launches: [before, before, before, hung] });
    expect(decideAfter(5000, of).decisions.map(({ kind }) => kind)).toEqual(['terminate', 'launch']);
  });
});
