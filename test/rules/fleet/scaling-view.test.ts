import { describe, expect, it } from 'vitest';
import { attentionIn } from '../../../src/fleet/view/attention.ts';
import { poolRow, USUAL_OBJECTIVES } from '../../../src/fleet/view/pool-row.ts';

import { summaryOf } from '../../../src/fleet/view/summary.ts';
import type { LaunchRow, PoolScaling, ScalingSummary, WorkerRow } from '../../../src/protocol/index.ts';
import { pool } from '../../support/queue-share.ts';

/** What the view says of a fleet that the scheduler starts and ends. */

const NOW = 1_000_000_000;
const MINUTE = 60_000;

const SUMMARY: ScalingSummary = {
  installation: 'k3x9',
  applied_at: NOW - 3_600_000,
  budget: { per_hour: 4, per_day: null },
  price_per_hour: 2,
  spent_today: 10,
  budget_reached: null,
  providers: [{ name: 'vast', driver: 'vast', listed_at: NOW - 5000, error: null }],
  launchers: [{ launcher_id: 'l', drivers: ['vast'], host: null, seen_at: NOW - 2000 }],
};
const SCALING = {
  control: 'automatic',
  breaker: null,
  rollout: null,
  spot: null,
  versions: [],
  max: 3,
  starting: 0,
  decision: null,
} as unknown as PoolScaling;
const LOADING = {
  name: 'wv-k3x9-cfg-abc',
  config_id: 'cfg',
  provider: 'vast',
  state: 'registered',
  intended_at: NOW - 2 * MINUTE,
  ready_expected_at: NOW + MINUTE,
  loading: { phase: 'load', progress: 0.62 },
  detail: null,
} as unknown as LaunchRow;

const MET = { succeeded: 0, failed: 0, first_token: {} };
const NONE = { failed: 0, expired: 0, succeeded: 0 };

interface Fleet {
  waiting?: number;
  /** How long the first of them has waited, ms. */
  oldest?: number;
  summary?: Partial<ScalingSummary>;
  scaling?: Partial<PoolScaling>;
  launches?: LaunchRow[];
  workers?: WorkerRow[];
}

/** A fleet of one pool. */
function view({
  waiting = 0,
  oldest = 40_000,
  summary = {},
  scaling = {},
  launches = [],
  workers = [],
}: Fleet) {
  const share = pool('cfg', {
    pending: { waiting: waiting, stored: 0 },
    oldest_since: waiting > 0 ? NOW - oldest : null,
  });
  const facts = {
    config_id: 'cfg',
    share,
    expected_start_ms: null,
    now: NONE,
    hour: NONE,
    day: NONE,
    met: { short: MET, long: MET },
    objectives: USUAL_OBJECTIVES,
  } as never;
  const row = poolRow(
    facts,
    { workers, launches, scaling: { ...SCALING, ...scaling }, fleet: { ...SUMMARY, ...summary } },
    NOW,
  );
  const incidents = { refusal: null, unknown_models: [] };
  const shown = { pools: [row], workers, launches, scaling: { ...SUMMARY, ...summary }, incidents };
  const rows = { pools: [row], workers, launches, attention: [] };
  return { row, attention: attentionIn(shown, NOW), summary: summaryOf(rows, NOW) };
}

describe('a fleet that is scaled to zero', () => {
  it('is fine while nothing waits, unless nothing may be started', () => {
    expect(view({})).toMatchObject({
      attention: [],
      summary: { verdict: 'serving', text: 'Scaled to zero: a worker is started when work comes.' },
    });
    expect(view({ scaling: { control: 'drained' } }).summary).toMatchObject({ verdict: 'not_serving' });
  });

  it('is degraded, not broken, until it is decided that a worker is started for the first that waits', () => {
    expect(view({ waiting: 1, oldest: 2000 }).summary.verdict).toBe('degraded');
    expect(view({ waiting: 1, oldest: 20_000 }).summary.verdict).toBe('not_serving');
    const held = { control: 'paused' as const };
    expect(view({ waiting: 1, oldest: 2000, scaling: held }).summary.verdict).toBe('not_serving');
    expect(view({ waiting: 1, oldest: 2000, scaling: { max: 0 } }).summary.verdict).toBe('not_serving');
  });

  it('is degraded, not broken, while a worker is started for those that wait', () => {
    const { attention, summary } = view({ waiting: 3, scaling: { starting: 1 }, launches: [LOADING] });
    expect(summary).toMatchObject({
      verdict: 'degraded',
      text: 'cfg: 3 jobs wait 40 s because a worker is being started: loading 62 %, usually 3 min.',
    });
    expect(attention).toMatchObject([
      { code: 'no_ready_worker', severity: 'warning', advice: 'Expected in about 1 min.' },
    ]);
  });

  it('is not serving once starts are held back, with the cause and the next step', () => {
    const breaker = { text: '3 starts in a row failed: exit code 71', until: NOW + 5 * MINUTE };
    const { attention, summary } = view({ waiting: 3, scaling: { breaker } });
    expect(summary).toMatchObject({
      verdict: 'not_serving',
      text: expect.stringContaining('none is started: 3 starts in a row failed'),
    });
    expect(attention).toMatchObject([
      { code: 'no_ready_worker', severity: 'error', advice: 'Resume it: worker-vllm fleet resume cfg.' },
      {
        code: 'starts_fail',
        text: 'cfg: 3 starts in a row failed: exit code 71.',
        advice:
          'The next start is tried in 5 min; once the cause is mended, at once: worker-vllm fleet resume cfg.',
      },
    ]);
  });
});

it('counts as ready what takes jobs, the same in the first line, the pool and what the scheduler has', () => {
  const workers = (['ready', 'running', 'paused', 'loading', 'draining', 'lost'] as const).map(
    (state) => ({ worker_id: state, config_id: 'cfg', state, models: [], start: {} }) as unknown as WorkerRow,
  );
  const { row, summary } = view({ workers, scaling: { ready: 3 } });
  expect([summary.ready_workers, row.ready_workers, row.scaling?.ready]).toEqual([2, 2, 2]);
});

describe('what of the scheduler needs attention', () => {
  it('is a budget that is reached, the worse while somebody waits for it', () => {
    const summary = { budget_reached: 'the budget of $4.00/h is reached' };
    expect(view({ summary }).attention).toMatchObject([
      { code: 'budget_reached', severity: 'warning', text: 'The budget of $4.00/h is reached.' },
    ]);
    expect(view({ summary, waiting: 1 }).attention[1]).toMatchObject({
      code: 'budget_reached',
      severity: 'error',
    });
  });

  it('is a worker that keeps the settings from before a change, with what can be done', () => {
    const text = '1 of 1 worker has another version than b. But max is 1.';
    const rollout = {
      state: 'rolling',
      from: 'a',
      to: 'b',
      since: 0,
      text,
      next: null,
      is_stuck: true,
    } as const;
    expect(view({ scaling: { rollout } }).attention).toMatchObject([
      {
        id: 'rollout_stuck/cfg',
        severity: 'warning',
        text: `cfg: ${text}`,
        advice: expect.stringContaining('"worker-vllm fleet drain cfg", then "worker-vllm fleet resume cfg"'),
      },
    ]);
  });

  it('is a version that was given up, with its cause and how it is tried once more', () => {
    const text =
      'Version 3f2a91c04b was stopped: its worker ended with exit code 9: There is no model "x".\nlast lines';
    const rollout = { state: 'stopped', from: 'a1b2c3d4e5', to: '3f2a91c04b', since: NOW, text } as const;
    const scaling = { rollout: { ...rollout, next: null, is_stuck: false } };
    expect(view({ scaling }).attention).toMatchObject([
      {
        id: 'rollout_stopped/cfg/3f2a91c04b',
        severity: 'error',
        since: NOW,
        text: 'cfg: Version 3f2a91c04b was stopped: its worker ended with exit code 9: There is no model "x".',
        advice: expect.stringContaining('worker-vllm fleet roll cfg --to 3f2a91c04b.'),
      },
    ]);
    const rolling = { rollout: { ...scaling.rollout, state: 'rolling' as const } };
    expect(view({ scaling: rolling }).attention).toEqual([]);
  });

  it('is a launcher that is silent, or lacks the driver of a provider, but not one that is to come', () => {
    const silent = [{ launcher_id: 'l', drivers: ['vast'], host: null, seen_at: NOW - 3 * MINUTE }];
    expect(view({ summary: { launchers: silent } }).attention).toMatchObject([
      { code: 'launcher_silent', text: expect.stringContaining('No launcher has been heard of for 3 min') },
    ]);
    const other = [{ launcher_id: 'l', drivers: ['docker'], host: null, seen_at: NOW - 61_000 }];
    const now = [{ launcher_id: 'm', drivers: ['docker'], host: null, seen_at: NOW }];
    expect(view({ summary: { launchers: other } }).attention).toHaveLength(1);
    expect(view({ summary: { launchers: now, applied_at: NOW - 1000 } }).attention).toEqual([]);
    expect(view({ summary: { launchers: [], applied_at: NOW - 1000 } }).attention).toEqual([]);
  });

  it('is a provider that has not told its machines for a while', () => {
    const provider = { name: 'vast', driver: 'vast', error: '502 Bad Gateway' };
    const listed = (ago: number) => view({ summary: { providers: [{ ...provider, listed_at: NOW - ago }] } });
    expect(listed(30_000).attention).toEqual([]);
    expect(listed(5 * MINUTE).attention).toMatchObject([
      {
        code: 'provider_silent',
        text: 'The provider vast has not told its machines for 5 min: 502 Bad Gateway.',
      },
    ]);
  });

  it('is a start that takes far longer than usual before its worker says anything', () => {
    const accepted = { ...LOADING, state: 'accepted', loading: null } as LaunchRow;
    const begun = (ago: number) => ({
      ...accepted,
      intended_at: NOW - ago,
      ready_expected_at: NOW - ago + 3 * MINUTE,
    });
    expect(view({ launches: [begun(4 * MINUTE)] }).attention).toEqual([]);
    expect(view({ launches: [begun(9 * MINUTE)] }).attention).toMatchObject([
      {
        code: 'start_slow',
        text: 'wv-k3x9-cfg-abc has been starting on vast for 9 min: its container starts, usually 3 min.',
      },
    ]);
    expect(view({ launches: [{ ...begun(9 * MINUTE), state: 'ready' }] }).attention).toEqual([]);
  });
});
