import { describe, expect, it } from 'vitest';
import type { Attention } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { pool, session } from '../../support/queue-share.ts';

/** The five incidents that a page must answer, and what else needs somebody. */

const items = (fleet: FleetHarness) => fleet.view().attention;
const codes = (fleet: FleetHarness) => items(fleet).map(({ code }) => code);

function only(fleet: FleetHarness): Attention {
  const [item, ...more] = items(fleet);
  if (!item || more.length > 0) throw new Error(`expected one item, not ${JSON.stringify(items(fleet))}`);
  return item;
}

function connect(fleet: FleetHarness, id: string, more: Parameters<typeof session>[1] = {}): void {
  fleet.registered(id, ['tiny'], more.config_id ?? 'cfg');
  fleet.share({ sessions: [session(id, { connected_at: fleet.nowMs, ...more })] });
}

/** A worker of the pool that took so long to start, and ended. */
function started(fleet: FleetHarness, tookMs: number, id = 'earlier'): void {
  const created_ms = fleet.nowMs;
  fleet.heartbeat(id, {
    status: 'stopping',
    config_id: 'cfg',
    start: { created_ms, engine_healthy_ms: created_ms + tookMs },
  });
}

describe('what needs attention', () => {
  it('is nothing in a fleet that is fine', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { running: 4 });
    fleet.share({
      pools: [pool('cfg', { pending: { waiting: 2, stored: 0 }, oldest_since: fleet.nowMs - 5000 })],
    });
    expect(items(fleet)).toEqual([]);
  });

  it('is a pool whose jobs wait for a worker that loads, with when to expect it', () => {
    const fleet = new FleetHarness();
    started(fleet, 180_000);
    fleet.heartbeat('vast-17', {
      status: 'starting',
      phase: 'load',
      progress: 0.62,
      config_id: 'cfg',
      start: { created_ms: fleet.nowMs },
    });
    fleet.share({ pools: [pool('cfg', { pending: { waiting: 14, stored: 0 }, oldest_since: fleet.nowMs })] });
    fleet.advance(65);
    fleet.heartbeat('vast-17', {
      status: 'starting',
      phase: 'load',
      progress: 0.7,
      config_id: 'cfg',
      start: { created_ms: fleet.nowMs - 65_000 },
    });
    expect(only(fleet)).toMatchObject({
      code: 'no_ready_worker',
      severity: 'error',
      config_id: 'cfg',
      text: 'cfg: 14 jobs wait, the oldest for 1 min: its only worker loads, 70 %, usually 3 min.',
      advice: 'Expected in about 2 min.',
      since: fleet.nowMs - 65_000,
    });
  });

  it('is a pool without a worker, with what to start', () => {
    const fleet = new FleetHarness();
    fleet.share({ pools: [pool('cfg', { pending: { waiting: 0, stored: 1 }, oldest_since: fleet.nowMs })] });
    expect(only(fleet)).toMatchObject({
      text: 'cfg: 1 job waits, the oldest for 0 s: it has no worker.',
      advice: 'Start a worker with CASOLA_CONFIG_ID=cfg.',
    });
  });

  it('is a start that takes much longer than those of its pool usually do', () => {
    const fleet = new FleetHarness();
    started(fleet, 100_000, 'a');
    started(fleet, 120_000, 'b');
    started(fleet, 900_000, 'c');
    const created_ms = fleet.nowMs;
    const beat = () =>
      fleet.heartbeat('w', {
        status: 'starting',
        phase: 'download',
        config_id: 'cfg',
        start: { created_ms },
      });
    beat();
    fleet.advance(170);
    beat();
    expect(codes(fleet)).toEqual([]);
    fleet.advance(15);
    beat();
    expect(only(fleet)).toMatchObject({
      code: 'start_slow',
      worker_id: 'w',
      text: 'w has been starting for 3 min, usually 2 min. It is in the phase "download".',
      since: created_ms,
    });
  });

  it('is a worker that failed, with its own advice', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('w', {
      status: 'failed',
      error_message: 'CUDA out of memory.\nTraceback',
      advice: 'Use a smaller model.',
      config_id: 'cfg',
    });
    expect(only(fleet)).toMatchObject({
      code: 'worker_error',
      severity: 'error',
      text: 'w failed: CUDA out of memory.',
      advice: 'Use a smaller model.',
    });
  });

  it('is a worker that is lost, for an hour', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { running: 3 });
    fleet.disconnected('w');
    fleet.share({ gone: ['w'] });
    expect(codes(fleet)).toEqual([]);
    fleet.advance(240);
    expect(only(fleet)).toMatchObject({
      code: 'worker_lost',
      text: 'w has not been heard of for 4 min; it was running 3 jobs; its connection ended: the connection closed.',
    });
    fleet.advance(3600);
    expect(codes(fleet)).toEqual([]);
  });

  it('is a worker that takes jobs while its heartbeats do not come, from three intervals on', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('w', { config_id: 'cfg' });
    fleet.advance(600);
    connect(fleet, 'w');
    fleet.advance(180);
    expect(codes(fleet)).toEqual([]);
    fleet.advance(1);
    expect(only(fleet)).toMatchObject({
      code: 'heartbeats_missing',
      severity: 'warning',
      worker_id: 'w',
      text: 'w takes jobs, but has sent no heartbeat for 13 min.',
    });
    fleet.heartbeat('w', { config_id: 'cfg' });
    expect(codes(fleet)).toEqual([]);
  });

  it('is no worker that never sent a heartbeat', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w');
    fleet.advance(3600);
    expect(codes(fleet)).toEqual([]);
  });

  it('is no worker that is lost because its machine was taken away', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { running: 3 });
    fleet.heartbeat('w', { status: 'draining', preempted: true });
    fleet.disconnected('w');
    fleet.share({ gone: ['w'] });
    fleet.advance(240);
    expect(fleet.view().workers).toMatchObject([{ state: 'lost', preempted: true }]);
    expect(codes(fleet)).toEqual([]);
  });

  it('is a queue that grows, with how many workers would keep up', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'a', { running: 4 });
    connect(fleet, 'b', { running: 4 });
    const totals = { submitted: 180, succeeded: 120 };
    fleet.share({
      pools: [
        pool('cfg', { pending: { waiting: 60, stored: 0 }, oldest_since: fleet.nowMs - 61_000, totals }),
      ],
    });
    expect(only(fleet)).toMatchObject({
      code: 'jobs_wait',
      severity: 'warning',
      text: 'cfg: 60 jobs wait, the oldest for 1 min: all 8 slots are busy: 3.0/s come, 2.0/s end.',
      advice: '1 more worker with CASOLA_CONFIG_ID=cfg would keep up.',
    });
  });

  it('looks the same from one second to the next while nothing happens', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w');
    fleet.share({ pools: [pool('cfg', { totals: { submitted: 30, succeeded: 5, failed: 25 } })] });
    const { version, attention } = fleet.view();
    expect(attention).toHaveLength(1);
    fleet.advance(1);
    expect(fleet.view()).toMatchObject({ version, attention });
  });

  it('is a worker whose engine has a backlog', () => {
    const fleet = new FleetHarness();
    connect(fleet, 'w', { state: 'paused', running: 4 });
    fleet.heartbeat('w', { engine_waiting: 1, kv_cache_usage: 0.97 });
    expect(only(fleet)).toMatchObject({
      code: 'engine_backlog',
      text: 'w takes no jobs for now: 1 request waits in its engine, its KV cache is 97 % full.',
    });
  });

  it('is a worker that was refused, and a model that nobody serves, for ten minutes', () => {
    const fleet = new FleetHarness();
    fleet.rules.incidents.refused({ why: 'its token is not known here', advice: 'Make one.' }, fleet.nowMs);
    fleet.choose('nameless');
    expect(items(fleet)).toMatchObject([
      {
        code: 'token_refused',
        text: 'A worker was refused: its token is not known here.',
        advice: 'Make one.',
      },
      {
        code: 'unknown_model',
        text: 'A caller asked for the model "nameless", which no worker serves; no model is known yet.',
      },
    ]);
    expect(fleet.view().summary.verdict).toBe('empty');
    fleet.advance(601);
    expect(items(fleet)).toEqual([]);
  });

  it('is a model that nobody serves, until somebody does', () => {
    const fleet = new FleetHarness();
    fleet.choose('tiny');
    fleet.choose('never');
    connect(fleet, 'w');
    fleet.choose('nowhere');
    expect(items(fleet).map(({ text }) => text)).toEqual([
      'A caller asked for the model "never", which no worker serves; no model is known yet.',
      'A caller asked for the model "nowhere", which no worker serves; models there are: tiny.',
    ]);
  });

  it('has the worst first', () => {
    const fleet = new FleetHarness();
    fleet.rules.incidents.refused({ why: 'its token is not known here', advice: '' }, fleet.nowMs);
    fleet.heartbeat('w', { status: 'error', config_id: 'cfg' });
    fleet.share({ pools: [pool('cfg', { pending: { waiting: 0, stored: 1 }, oldest_since: fleet.nowMs })] });
    expect(codes(fleet)).toEqual(['no_ready_worker', 'worker_error', 'token_refused']);
  });
});

describe('how long a start is expected to take', () => {
  it('is the median of the newest starts of its pool, each counted once, over restarts', () => {
    const fleet = new FleetHarness();
    const expected = () => fleet.view().workers.find(({ worker_id }) => worker_id === 'w')?.expected_start_ms;
    fleet.heartbeat('w', { status: 'starting', config_id: 'cfg' });
    expect(expected()).toBeNull();
    for (let n = 0; n < 5; n++) started(fleet, 600_000, 'a');
    started(fleet, 100_000, 'b');
    started(fleet, 120_000, 'c');
    expect(expected()).toBe(120_000);
    for (let n = 0; n < 30; n++) {
      fleet.advance(1);
      started(fleet, 60_000, `later-${n}`);
    }
    expect(expected()).toBe(60_000);
    fleet.rules.save();
    fleet.restart();
    expect(expected()).toBe(60_000);
  });
});
