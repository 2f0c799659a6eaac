import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Driver } from '../../../src/providers/driver.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { NO_ACCIDENTS } from '../../support/fakes/accidents.ts';
import { until } from '../../support/poll.ts';
import { ProcessWorld, STUBBORN } from '../../support/process-world.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const NOT_HERE = 'processes of this machine are started and ended by the kernel';

driverContract(
  'process',
  () => {
    const world = new ProcessWorld();
    return {
      driver: world.driver(),
      provider: world,
      clock: new VirtualClock(),
      close: async () => world.close(),
    };
  },
  { impossible: Object.fromEntries(Object.keys(NO_ACCIDENTS).map((accident) => [accident, NOT_HERE])) },
);

describe('the driver of processes', () => {
  let world: ProcessWorld;
  beforeEach(() => {
    world = new ProcessWorld();
  });
  afterEach(() => world.close());

  const NAME = 'wv-abc123-small-1';
  const launch = (driver: Driver, name = NAME, more: { gpus?: number; env?: Record<string, string> } = {}) =>
    driver.launch({
      name,
      may_exist: false,
      instance_type: 'local',
      gpus: more.gpus ?? 0,
      disk_gb: null,
      price_per_hour: null,
      image: null,
      env: { CASOLA_INSTANCE_ID: name, ...more.env },
    });
  const record = () => join(world.stateDir, 'processes', `${NAME}.json`);
  const changeRecord = (change: (record: Record<string, unknown>) => unknown) =>
    writeFileSync(record(), JSON.stringify(change(JSON.parse(readFileSync(record(), 'utf8')))));

  it('gives each worker GPUs of its own and a port for its engine', async () => {
    const driver = world.driver({ gpus: [0, 1, 2] });
    await launch(driver, 'wv-abc123-a-1', { gpus: 2 });
    await launch(driver, 'wv-abc123-a-2', { gpus: 1 });
    const given = world.alive.map(({ env }) => env.CUDA_VISIBLE_DEVICES);
    expect(given.sort()).toEqual(['0,1', '2']);
    expect(new Set(world.alive.map(({ env }) => env.VLLM_PORT)).size).toBe(2);
    expect(await launch(driver, 'wv-abc123-a-3', { gpus: 1 })).toMatchObject({ kind: 'no_capacity' });
    await driver.terminate({ name: 'wv-abc123-a-1', external_id: null });
    expect(await launch(driver, 'wv-abc123-a-3', { gpus: 1 })).toMatchObject({ kind: 'launched' });
    expect(world.alive.map(({ env }) => env.CUDA_VISIBLE_DEVICES).sort()).toEqual(['0', '2']);
  });

  it("keeps the launcher's keys to itself", async () => {
    process.env.RUNPOD_API_KEY = 'key-of-the-launcher';
    try {
      await launch(world.driver());
    } finally {
      delete process.env.RUNPOD_API_KEY;
    }
    expect(world.alive[0]!.env).not.toHaveProperty('RUNPOD_API_KEY');
    expect(world.alive[0]!.env.PATH).toBe(process.env.PATH);
  });

  it('is adopted by the next launcher, which ends it', async () => {
    await launch(world.driver());
    const next = world.driver();
    expect(await next.list('wv-abc123-')).toMatchObject([{ name: NAME, state: 'running' }]);
    expect(await launch(next)).toMatchObject({ kind: 'launched', external_id: NAME });
    expect(world.alive).toHaveLength(1);
    expect(await next.terminate({ name: NAME, external_id: NAME })).toEqual({ kind: 'terminated' });
    expect(world.alive).toEqual([]);
  });

  it('is known although the launcher was killed before it noted its process', async () => {
    await launch(world.driver());
    changeRecord((kept) => ({ ...kept, process: null }));
    const next = world.driver();
    expect(await next.list('wv-abc123-')).toMatchObject([{ name: NAME, state: 'running' }]);
    expect(await next.terminate({ name: NAME, external_id: null })).toEqual({ kind: 'terminated' });
    expect(world.alive).toEqual([]);
  });

  it('never takes another process for its own', async () => {
    await launch(world.driver());
    await launch(world.driver(), 'wv-abc123-small-2');
    const stranger = world.alive.find(({ name }) => name.endsWith('2'))!;
    await world.vanish({ name: NAME });
    // Its number was used again: the start time, and then the token alone, tell the two apart.
    changeRecord((kept) => ({ ...kept, process: { ...(kept.process as object), pid: stranger.pid } }));
    expect(await world.driver().list(NAME)).toMatchObject([{ state: 'ended' }]);
    const other = JSON.parse(readFileSync(record().replace('small-1', 'small-2'), 'utf8'));
    changeRecord((kept) => ({ ...kept, process: other.process }));
    const driver = world.driver();
    expect(await driver.list(NAME)).toMatchObject([{ state: 'ended' }]);
    expect(await driver.terminate({ name: NAME, external_id: null })).toEqual({ kind: 'terminated' });
    expect(world.alive.map(({ pid }) => pid)).toEqual([stranger.pid]);
  });

  it('shows the exit code and the end of the log of a worker that ended, whoever started it', async () => {
    const program = [
      '/bin/sh',
      '-c',
      'echo "the model does not exist"; trap "exit 9" USR1; sleep 600 & wait',
    ];
    await launch(world.driver({ program }));
    await world.end({ name: NAME });
    const [ended] = await until(async () => {
      const list = await world.driver().list('wv-abc123-');
      return list[0]?.exit_code === null ? null : list;
    }, 'its exit code is kept');
    expect(ended).toMatchObject({ state: 'ended', exit_code: 9, detail: 'the model does not exist' });
    expect(Math.abs(ended!.ended_at! - Date.now())).toBeLessThan(60_000);
  });

  it('kills a worker that does not end, after one SIGTERM and its own grace', async () => {
    const driver = world.driver({ program: STUBBORN, speed: 2 });
    await launch(driver, NAME, { env: { CASOLA_SHUTDOWN_GRACE_PERIOD: '1' } });
    await world.listens({ name: NAME });
    const log = () => readFileSync(record().replace('.json', '.log'), 'utf8');
    const first = driver.terminate({ name: NAME, external_id: null });
    await until(() => log().includes('got SIGTERM'), 'it got SIGTERM');
    // A launcher that was restarted meanwhile goes on with the same end.
    const second = world.driver({ speed: 2 }).terminate({ name: NAME, external_id: null });
    expect(await first).toEqual({ kind: 'terminated' });
    expect(await second).toEqual({ kind: 'terminated' });
    expect(world.alive).toEqual([]);
    expect(log().match(/got SIGTERM/g)).toHaveLength(1);
  });

  it('says why a worker cannot be started, and forgets it', async () => {
    const driver = world.driver({ program: ['/nonexistent/program'] });
    await launch(driver);
    const [ended] = await until(async () => {
      const list = await driver.list('wv-abc123-');
      return list[0]?.exit_code === null ? null : list;
    }, 'it has ended');
    expect(ended).toMatchObject({
      state: 'ended',
      exit_code: 127,
      detail: expect.stringContaining('not found'),
    });
  });
});
