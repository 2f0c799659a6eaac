import { describe, expect, it } from 'vitest';
import { poolStart, type StartFacts } from '../../../src/fleet/view/pool-start.ts';
import type { LaunchRow, PoolScaling, ScalingSummary } from '../../../src/protocol/index.ts';
import { PoolSpec } from '../../../src/scheduler/spec.ts';
import { session } from '../../support/queue-share.ts';

const NOW = 1_000_000_000;

const launch = (state: LaunchRow['state'], more: Partial<LaunchRow> = {}) =>
  ({
    config_id: 'cfg',
    state,
    intended_at: NOW,
    ready_expected_at: null,
    loading: null,
    ...more,
  }) as LaunchRow;

function start(facts: Partial<StartFacts> = {}, spec: object = {}) {
  const pool = PoolSpec.parse({ model: 'org/tiny', machines: [{ provider: 'local' }], ...spec });
  const nothing = { launches: [], sessions: [], known: [], scaling: null, outdated: new Set<string>() };
  return poolStart('cfg', pool, { ...nothing, ...facts }, NOW);
}

function scaling(pool: Partial<PoolScaling>, budget_reached: string | null = null): StartFacts['scaling'] {
  const summary = { budget_reached } as ScalingSummary;
  const all = { control: 'automatic', breaker: null, ...pool } as PoolScaling;
  return { summary, pools: new Map([['cfg', all]]) };
}

describe('what callers may expect of a pool without a worker', () => {
  it('is that one will be started, under its declared names and those that its workers had', () => {
    const known = [
      { id: 'tiny', config_id: 'cfg' },
      { id: 'large', config_id: 'other' },
    ];
    expect(start({ known }, { served_names: ['small'], start_wait: '5m' })).toEqual({
      config_id: 'cfg',
      names: ['tiny', 'org/tiny', 'small'],
      state: 'scaled_to_zero',
      text: 'starting a worker',
      progress: null,
      wait_ms: 300_000,
      retry_after_seconds: 60,
      outdated: [],
    });
  });

  it('is none that serves since before its settings were changed, and nothing where there is no room beside it', () => {
    const sessions = [session('old', { config_id: 'cfg' })];
    const changed = { sessions, outdated: new Set(['old']) };
    expect(start(changed, { max: 2 })).toMatchObject({ state: 'scaled_to_zero', outdated: ['old'] });
    expect(start({ ...changed, launches: [launch('accepted')] }).state).toBe('starting');
    // The launch of the one that serves is no start.
    const launches = [launch('ready', { name: 'old' })];
    expect(start({ ...changed, launches }, { max: 1 })).toMatchObject({
      state: 'stopped',
      text: expect.stringContaining('max leaves no room'),
    });
    const both = [...sessions, session('new', { config_id: 'cfg' })];
    expect(start({ ...changed, sessions: both }).state).toBe('ready');
  });

  it('is how far the start is that comes first, and how long that usually takes', () => {
    const launches = [
      launch('accepted'),
      launch('failed'),
      launch('registered', { loading: { phase: 'load', progress: 0.62 }, ready_expected_at: NOW + 190_000 }),
      launch('registered', { loading: { phase: 'load', progress: 0.3 } }),
      launch('registered', { config_id: 'other', loading: { phase: 'load', progress: 0.9 } }),
    ];
    expect(start({ launches })).toMatchObject({
      state: 'starting',
      progress: 0.62,
      text: 'starting a worker: loading 62 %, usually 3 min',
    });
    expect(start({ launches: launches.slice(0, 2) }).text).toBe('starting a worker: its container starts');
    expect(start({ launches: [launch('requested')] }).text).toBe('starting a worker: waiting for a machine');
    expect(start({ launches: [launch('draining'), launch('gone')] }).state).toBe('scaled_to_zero');
  });

  it('is a worker that takes jobs, whoever started it, but not one that drains', () => {
    const paused = scaling({ control: 'paused' });
    expect(start({ sessions: [session('w', { config_id: 'cfg' })], scaling: paused }).state).toBe('ready');
    const draining = session('w', { config_id: 'cfg', state: 'draining' });
    expect(start({ sessions: [draining, session('x', { config_id: 'other' })] }).state).toBe(
      'scaled_to_zero',
    );
  });

  it.each([
    ['an operator has paused it', { control: 'paused' }, null],
    ['an operator has drained it', { control: 'drained' }, null],
    [
      '3 starts in a row failed',
      { breaker: { text: '3 starts in a row failed', until: NOW + 90_000 } },
      null,
    ],
    ['the budget is reached', {}, 'the budget is reached'],
  ] as const)('is nothing, because %s, unless a worker is on its way', (why, pool, budget) => {
    const held = scaling(pool as Partial<PoolScaling>, budget);
    expect(start({ scaling: held })).toMatchObject({
      state: 'stopped',
      text: why,
      retry_after_seconds: 'breaker' in pool ? 90 : 60,
    });
    expect(start({ scaling: held, launches: [launch('accepted')] }).state).toBe('starting');
  });

  it('is nothing where only batches start workers, even while one starts', () => {
    const launches = [launch('accepted')];
    expect(start({ launches }, { batch_only: true })).toMatchObject({
      state: 'stopped',
      text: expect.stringContaining('batches'),
    });
    expect(start({}, { max: 0 })).toMatchObject({ state: 'stopped', text: 'the fleet allows none of it' });
  });
});
