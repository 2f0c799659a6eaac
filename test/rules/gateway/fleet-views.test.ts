import { describe, expect, it } from 'vitest';
import type { Machine, PoolStart, SessionShare } from '../../../src/fleet/rpc.ts';
import { modelViews, workerView } from '../../../src/gateway/fleet-views.ts';
import { newMachine } from '../../../src/scheduler/machines.ts';

const session = (worker_id: string, more: Partial<SessionShare> = {}): SessionShare => ({
  worker_id,
  config_id: 'cfg',
  state: 'ready',
  protocol: 'extended',
  capacity: 4,
  running: 1,
  models: ['tiny'],
  adapters: null,
  connected_at: 1000,
  ...more,
});
const known = (worker_id: string, more: Partial<Machine> = {}): Machine => ({
  ...newMachine(worker_id),
  config_id: 'cfg',
  ...more,
});

describe('the view of workers', () => {
  it('joins what a worker said with its session', () => {
    const instance = {
      id: 'i',
      host: 'h',
      gpu: 'H100',
      engine: 'vllm',
      engine_version: '1',
      models: ['old'],
      engine_requests: 256,
      version: 'a1b2',
    };
    const heartbeat = { instance_id: 'i', status: 'running', phase: 'ready' } as const;
    const worker = known('w', { instance, heartbeat, heartbeat_at: 2000, session: session('w') });
    expect(workerView(worker)).toEqual({
      worker_id: 'w',
      instance_id: 'i',
      config_id: 'cfg',
      state: 'ready',
      status: 'running',
      phase: 'ready',
      error_message: null,
      protocol: 'extended',
      capacity: 4,
      running: 1,
      host: 'h',
      gpu: 'H100',
      engine: 'vllm',
      engine_version: '1',
      engine_requests: 256,
      version: 'a1b2',
      models: ['tiny'],
      adapters: null,
      connected_at: '1970-01-01T00:00:01.000Z',
      last_heartbeat_at: '1970-01-01T00:00:02.000Z',
    });
  });

  it('shows one that only sent heartbeats', () => {
    const heartbeat = { instance_id: 'i', status: 'fatal', error_message: 'no GPU' } as const;
    expect(workerView(known('b', { heartbeat, config_id: null }))).toMatchObject({
      ...{ worker_id: 'b', instance_id: 'i', config_id: null },
      ...{ state: 'disconnected', capacity: 0, protocol: null, error_message: 'no GPU' },
    });
  });
});

describe('the view of models', () => {
  it('tells which are served now: not by workers that drain, and by base workers under their pool', () => {
    const models = [
      { id: 'tiny', config_id: 'cfg', first_seen_ms: 1, card: null },
      { id: 'gone', config_id: 'cfg', first_seen_ms: 2, card: null },
      { id: 'leaving', config_id: 'cfg', first_seen_ms: 3, card: null },
    ];
    const sessions = [
      session('w'),
      session('leaving', { state: 'draining', models: ['leaving'] }),
      session('base', { config_id: 'base', models: [], protocol: 'base' }),
    ];
    expect(modelViews(models, sessions)).toMatchObject([
      { id: 'tiny', config_id: 'cfg', first_seen_ms: 1, card: null, available: true, state: 'ready' },
      { id: 'gone', config_id: 'cfg', first_seen_ms: 2, card: null, available: false, state: 'gone' },
      { id: 'leaving', config_id: 'cfg', first_seen_ms: 3, card: null, available: false, state: 'gone' },
      { id: 'base', config_id: 'base', first_seen_ms: 1000, card: null, available: true, state: 'ready' },
    ]);
  });

  it('tells what the scheduler makes of those without a worker, and has those that were only declared', () => {
    const models = [
      { id: 'tiny', config_id: 'cfg', first_seen_ms: 1, card: null },
      { id: 'other', config_id: 'slow', first_seen_ms: 2, card: null },
    ];
    const start = (config_id: string, state: PoolStart['state'], ...names: string[]): PoolStart => ({
      ...{ config_id, names, state, progress: null, text: '', wait_ms: 1, retry_after_seconds: 5 },
      outdated: [],
    });
    const starts = [
      start('cfg', 'ready', 'declared'),
      start('slow', 'starting'),
      start('new', 'scaled_to_zero', 'a', 'b'),
      start('unnamed', 'stopped'),
    ];
    const views = modelViews(models, [session('w')], starts);
    expect(views.map(({ id, state, available }) => [id, state, available])).toEqual([
      ['tiny', 'ready', true],
      ['other', 'starting', false],
      ['a', 'scaled_to_zero', false],
      ['b', 'scaled_to_zero', false],
      ['unnamed', 'stopped', false],
    ]);
    // Its worker is one from before a change.
    const changed = { ...start('cfg', 'starting', 'tiny', 'declared'), outdated: ['w'] };
    expect(modelViews(models.slice(0, 1), [session('w')], [changed])).toMatchObject([
      { id: 'tiny', state: 'ready', available: true },
      { id: 'declared', state: 'starting', available: false },
    ]);
  });
});
