import { describe, expect, it } from 'vitest';
import type { Heartbeat, WorkerRow } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { pool, session } from '../../support/queue-share.ts';

const MINUTE = 60;

function row(fleet: FleetHarness, id = 'w'): WorkerRow {
  const found = fleet.view().workers.find(({ worker_id }) => worker_id === id);
  if (!found) throw new Error(`no worker ${id} is shown`);
  return found;
}

/** A worker that is registered and connected. */
function connect(fleet: FleetHarness, id: string, more: Parameters<typeof session>[1] = {}): void {
  fleet.registered(id, ['tiny'], more.config_id ?? 'cfg');
  fleet.share({ sessions: [session(id, { connected_at: fleet.nowMs, ...more })] });
}

function disconnect(fleet: FleetHarness, id: string, configId = 'cfg'): void {
  fleet.disconnected(id, ['tiny'], configId);
  fleet.share({ gone: [id] });
}

/** A heartbeat of one that loads. */
const loads = (more: Partial<Heartbeat> = {}): Partial<Heartbeat> => ({
  status: 'starting',
  phase: 'load',
  config_id: 'cfg',
  ...more,
});

it('a worker is shown with the version that it registered, also when it is gone', () => {
  const fleet = new FleetHarness();
  const worker = { worker_id: 'w', config_id: 'cfg', models: [], at: fleet.nowMs };
  fleet.rules.record([{ kind: 'registered', ...worker, instance: { id: 'w', version: 'a1b2' } }]);
  fleet.share({ sessions: [session('w')] });
  expect(row(fleet).version).toBe('a1b2');
  disconnect(fleet, 'w');
  expect(row(fleet).version).toBe('a1b2');
});

describe('the state of a worker', () => {
  it.each([
    [{ status: 'starting' }, 'starting'],
    [{ status: 'starting', phase: 'download' }, 'loading'],
    [{ status: 'stopping' }, 'stopped'],
    [{ status: 'error' }, 'error'],
    [{ status: 'fatal' }, 'error'],
  ] as const)('that is not connected follows from its heartbeat: %o is %s', (beat, state) => {
    const fleet = new FleetHarness();
    fleet.heartbeat('w', beat);
    expect(row(fleet).state).toBe(state);
  });

  it.each([
    [{}, 'ready'],
    [{ running: 1 }, 'running'],
    [{ state: 'paused', running: 1 }, 'paused'],
    [{ state: 'draining' }, 'draining'],
  ] as const)('that is connected follows from its session: %o is %s', (more, state) => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', more);
    expect(row(fleet).state).toBe(state);
  });

  it('is late after an interval without a heartbeat, and lost after three, with no event', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('w', loads({ interval_seconds: 10, progress: 0.62 }));
    fleet.advance(12);
    expect(row(fleet).state).toBe('loading');
    fleet.advance(2);
    expect(row(fleet).state).toBe('late');
    fleet.advance(17);
    expect(row(fleet)).toMatchObject({
      state: 'lost',
      was_doing: 'was loading (load, 62 %)',
      progress: null,
    });
  });

  it('that is connected is not late while heartbeats fail to come: its connection tells more', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w');
    fleet.heartbeat('w', { interval_seconds: 10 });
    fleet.advance(3600);
    expect(row(fleet).state).toBe('ready');
  });

  it('that died says what it was doing, over a restart too, and no longer what it measured', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { running: 3 });
    const gpus = [{ name: 'H100', utilization: 0.9 }];
    fleet.heartbeat('w', { interval_seconds: 10, tokens_per_second: 50, gpus });
    disconnect(fleet, 'w');
    expect(row(fleet)).toMatchObject({
      state: 'late',
      tokens_per_second: 50,
      disconnected: { reason: 'the connection closed' },
    });
    fleet.rules.save();
    fleet.restart();
    fleet.advance(31);
    expect(row(fleet)).toMatchObject({
      state: 'lost',
      was_doing: 'was running 3 jobs',
      tokens_per_second: null,
      running: null,
      gpus: [{ name: 'H100' }],
    });
    expect(row(fleet).gpus[0]).not.toHaveProperty('utilization');
  });

  it('carries every measurement of its heartbeat, and only what it counted once it is lost', () => {
    const fleet = new FleetHarness();
    const measured = {
      engine_running: 2,
      engine_waiting: 1,
      kv_cache_usage: 0.5,
      engine_asleep: false,
      prefills: { results: { done: 1 }, tokens: 9000 },
      tokens_per_second: 80,
      first_token_ms: 120,
    };
    const counted = { missed_renewals: 3, spool_bytes: 4096 };
    fleet.heartbeat('w', { ...measured, ...counted });
    expect(row(fleet)).toMatchObject({ ...measured, ...counted });
    fleet.advance(4 * MINUTE);
    const gone = Object.fromEntries(Object.keys(measured).map((name) => [name, null]));
    expect(row(fleet)).toMatchObject({ state: 'lost', ...gone, ...counted });
  });

  it('that starts again after its end is starting, and not the one that was lost', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w');
    disconnect(fleet, 'w');
    fleet.advance(1000);
    expect(row(fleet).state).toBe('lost');
    fleet.heartbeat('w', loads());
    expect(row(fleet)).toMatchObject({ state: 'loading', was_doing: null });
    connect(fleet, 'w');
    expect(row(fleet)).toMatchObject({ state: 'ready', disconnected: null });
  });

  it('is an error by what a connected worker says now, not by its process before, and without the advice in it', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('w', { status: 'failed', error_message: 'out of memory' });
    fleet.advance(5);
    connect(fleet, 'w');
    expect(row(fleet).state).toBe('ready');
    fleet.advance(5);
    const advice = 'Restart it.';
    fleet.heartbeat('w', { status: 'error', error_message: `engine hangs. ${advice}`, advice });
    expect(row(fleet)).toMatchObject({
      state: 'error',
      error: { message: 'engine hangs.', advice, at: fleet.nowMs },
    });
  });

  it('says since when, once it changes while somebody looks', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w');
    fleet.view();
    fleet.advance(7);
    fleet.share({ sessions: [session('w', { running: 1, connected_at: fleet.nowMs - 7000 })] });
    const { nowMs } = fleet;
    fleet.view();
    fleet.advance(60);
    expect(row(fleet)).toMatchObject({ state: 'running', state_since: nowMs });
  });

  it('is not shown for ever of those that are gone', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('ended', { status: 'stopping' });
    fleet.heartbeat('lost', { status: 'running' });
    fleet.rules.save();
    const shown = () => fleet.view().workers.map(({ worker_id }) => worker_id);
    fleet.advance(59 * MINUTE);
    expect(shown()).toEqual(['ended', 'lost']);
    fleet.advance(2 * MINUTE);
    expect(shown()).toEqual(['lost']);
    fleet.advance(24 * 60 * MINUTE);
    expect(shown()).toEqual([]);
    expect(fleet.workers()).toHaveLength(2);
  });
});

describe('the verdict', () => {
  const summary = (fleet: FleetHarness) => fleet.view().summary;

  it('is "empty" before any worker was heard of', () => {
    expect(summary(new FleetHarness())).toMatchObject({
      verdict: 'empty',
      text: 'No worker has connected yet.',
      oldest_wait_ms: null,
      tokens_per_second: null,
    });
  });

  it('is "serving" while every pool in use has a worker that is ready', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'a');
    expect(summary(fleet)).toMatchObject({ verdict: 'serving', text: 'cfg is served: 1 worker ready.' });
    connect(fleet, 'b', { config_id: 'other', running: 2 });
    fleet.heartbeat('c', loads());
    expect(summary(fleet)).toMatchObject({
      verdict: 'serving',
      text: 'All 2 pools are served: 2 of 3 workers ready.',
      workers: 3,
      ready_workers: 2,
      slots: 8,
      busy_slots: 2,
    });
  });

  it('is "degraded" where jobs of one pool wait for its only worker, and says why and how long that takes', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'a');
    const created_ms = fleet.nowMs;
    const start = { created_ms, engine_healthy_ms: created_ms + 180_000 };
    fleet.heartbeat('old', { config_id: 'llama-8b', status: 'stopping', start });
    fleet.heartbeat('w', loads({ config_id: 'llama-8b', progress: 0.62 }));
    fleet.share({
      pools: [pool('llama-8b', { pending: { waiting: 12, stored: 0 }, oldest_since: fleet.nowMs - 40_000 })],
    });
    expect(summary(fleet)).toMatchObject({
      verdict: 'degraded',
      text: '1 of 2 pools fine; llama-8b: 12 jobs wait 40 s because its only worker loads, 62 %, usually 3 min.',
      waiting: 12,
      oldest_wait_ms: 40_000,
    });
  });

  it('is "not serving" where nothing is ready', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('w', { status: 'fatal', error_message: 'no GPU\nstack', config_id: 'cfg' });
    expect(summary(fleet)).toMatchObject({
      verdict: 'not_serving',
      text: 'cfg: its only worker failed: no GPU.',
    });
    const other = new FleetHarness();
    connect(other, 'w');
    disconnect(other, 'w');
    other.advance(3600);
    expect(summary(other)).toMatchObject({
      verdict: 'not_serving',
      text: 'No worker is running.',
    });
  });

  it('tells of a pool without any worker when jobs wait for it', () => {
    const fleet = new FleetHarness();
    fleet.share({ pools: [pool('cfg', { pending: { waiting: 0, stored: 1 }, oldest_since: fleet.nowMs })] });
    expect(summary(fleet)).toMatchObject({
      verdict: 'not_serving',
      text: 'cfg: 1 job waits 0 s because it has no worker.',
    });
  });
});

describe('why jobs wait', () => {
  const why = (fleet: FleetHarness) => fleet.view().pools[0]?.why_waiting?.for ?? null;
  const waits = (fleet: FleetHarness, more: Parameters<typeof pool>[1] = {}) =>
    fleet.share({
      pools: [pool('cfg', { pending: { waiting: 0, stored: 3 }, oldest_since: fleet.nowMs, ...more })],
    });

  it('is null while none does', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w');
    fleet.share({ pools: [pool('cfg')] });
    expect(why(fleet)).toBeNull();
  });

  it('is that all slots are busy, with how many come and end', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { running: 4 });
    waits(fleet, { totals: { submitted: 186, succeeded: 100, failed: 20 } });
    expect(why(fleet)).toBe('all 4 slots are busy: 3.1/s come, 2.0/s end');
    fleet.share({ sessions: [session('w', { capacity: 1, running: 1 })] });
    expect(why(fleet)).toBe('its only slot is busy: 3.1/s come, 2.0/s end');
  });

  it('is what the worker nearest to ready does, where none is', () => {
    const fleet = new FleetHarness();
    waits(fleet);
    fleet.heartbeat('broken', { status: 'error', error_message: 'no GPU', config_id: 'cfg' });
    fleet.heartbeat('slow', loads({ progress: 0.1 }));
    fleet.heartbeat('quick', loads({ progress: 0.9 }));
    expect(why(fleet)).toBe('none of its 3 workers is ready: quick loads, 90 %');
  });

  it('is a backlog in the engine of a worker that takes none for now', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { state: 'paused', running: 2 });
    fleet.heartbeat('w', { engine_waiting: 14, kv_cache_usage: 0.97 });
    connect(fleet, 'other', { running: 4 });
    waits(fleet);
    expect(why(fleet)).toBe(
      'w takes no jobs for now: 14 requests wait in its engine, its KV cache is 97 % full',
    );
  });

  it('is the last worker, where all are gone', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { running: 2 });
    disconnect(fleet, 'w');
    fleet.advance(600);
    waits(fleet);
    expect(why(fleet)).toBe('it has no worker; the last one, w, is lost; it was running 2 jobs');
  });
});
