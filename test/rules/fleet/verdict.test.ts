import { describe, expect, it } from 'vitest';
import { Projection } from '../../../src/fleet/projection.ts';
import { type Steady, steadied } from '../../../src/fleet/view/summary.ts';
import type { Heartbeat, LaunchRow, Verdict } from '../../../src/protocol/index.ts';
import type { LaunchRecord } from '../../../src/scheduler/launch.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { histogram, type PoolNumbers, pool, session } from '../../support/queue-share.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;

/** A fleet whose worker `w` serves the pool `cfg`. */
function serving(numbers: PoolNumbers = {}): FleetHarness {
  const fleet = new FleetHarness();
  fleet.registered('w');
  fleet.share({ full: true, sessions: [session('w')], pools: [pool('cfg', numbers)] });
  return fleet;
}

const verdict = (fleet: FleetHarness) => fleet.view().summary.verdict;
const wrongUrl: Partial<Heartbeat> = {
  status: 'fatal',
  error_message: 'ENGINE_URL: nothing answers at http://127.0.0.1:1',
  config_id: 'cfg',
  interval_seconds: 10,
};

describe('the verdict that is found', () => {
  const late = histogram('first_token', [...Array<number>(12).fill(15), ...Array<number>(8).fill(0.2)]);
  it.each<[string, Verdict, (fleet: FleetHarness) => void]>([
    ['nothing wrong', 'serving', () => {}],
    ['a worker in error', 'degraded', (fleet) => fleet.heartbeat('x', wrongUrl)],
    [
      'a worker in error of a pool that has no other',
      'degraded',
      (fleet) => fleet.heartbeat('x', { ...wrongUrl, config_id: 'other' }),
    ],
    [
      'a lost worker',
      'degraded',
      (fleet) => {
        fleet.heartbeat('x', { status: 'running', interval_seconds: 10 });
        fleet.advance(60);
      },
    ],
    [
      'a lost worker, an hour later',
      'serving',
      (fleet) => {
        fleet.heartbeat('x', { status: 'running', interval_seconds: 10 });
        fleet.advance(HOUR + 60);
      },
    ],
    [
      'a worker that has stopped',
      'serving',
      (fleet) => fleet.heartbeat('x', { status: 'stopping', config_id: 'cfg' }),
    ],
    [
      '60 % of callers late',
      'degraded',
      (fleet) => fleet.share({ pools: [pool('cfg', { live_first_token_buckets: late })] }),
    ],
    ['a model name that a caller mistyped', 'serving', (fleet) => void fleet.choose('tinny')],
  ])('with %s: %s', (_case, expected, happen) => {
    const fleet = serving();
    happen(fleet);
    expect(verdict(fleet)).toBe(expected);
  });

  it('says which workers failed', () => {
    const fleet = serving();
    fleet.heartbeat('x', wrongUrl);
    expect(fleet.view().summary.text).toBe('cfg is served: 1 of 2 workers ready, 1 in error.');
  });

  it('gives one reason while callers are late, whoever waits at this moment', () => {
    const fleet = serving();
    const reasons = new Set<string>();
    for (let second = 0; second < 20; second += 1) {
      const since = second % 4 < 2 ? fleet.nowMs - 15_000 : null;
      const waits = {
        pending: { waiting: since ? 3 : 0, stored: 0 },
        oldest_since: since,
        oldest_caller_since: since,
      };
      fleet.share({ pools: [pool('cfg', { live_first_token_buckets: late, ...waits })] });
      reasons.add(fleet.view().summary.text.replaceAll(/\d+/g, 'n'));
      fleet.advance(1);
    }
    expect([...reasons]).toEqual([
      'cfg: n of n callers waited longer than n s for their first token within five minutes (n %; the objective allows n %).',
    ]);
  });

  it.each(['cfg', 'other'])(
    'does not stay for days for a worker of %s that was started once',
    (config_id) => {
      const fleet = serving();
      fleet.heartbeat('x', { ...wrongUrl, config_id });
      expect(verdict(fleet)).toBe('degraded');
      fleet.advance(HOUR + 60);
      expect(verdict(fleet)).toBe('serving');
      expect(fleet.view().attention).toEqual([]);
      fleet.advance(2 * DAY);
      expect(fleet.view().workers.map(({ worker_id }) => worker_id)).toEqual(['w']);
    },
  );

  it.each(['cfg', 'other'])(
    'is well at once when somebody sees to a worker of %s, or has it forgotten',
    (config_id) => {
      const seen = serving();
      seen.heartbeat('x', { ...wrongUrl, config_id });
      expect(verdict(seen)).toBe('degraded');
      seen.alerts.acknowledge('worker_error/x', 'ops', seen.nowMs);
      expect(verdict(seen)).toBe('serving');

      const gone = serving();
      gone.heartbeat('x', { ...wrongUrl, config_id });
      expect(verdict(gone)).toBe('degraded');
      expect(['x', 'w', 'nobody'].map((id) => gone.rules.forgetWorker(id))).toEqual([
        'forgotten',
        'connected',
        'unknown',
      ]);
      expect(verdict(gone)).toBe('serving');
      gone.restart();
      expect(gone.workers().map(({ worker_id }) => worker_id)).toEqual(['w']);
    },
  );
});

it('does not count a worker that failed once the scheduler has ended its launch', () => {
  const fleet = serving();
  fleet.heartbeat('x', wrongUrl);
  let launch: LaunchRecord | null = null;
  const projection = new Projection('queue', {
    machines: () => fleet.workers().map((one) => (one.worker_id === 'x' ? { ...one, launch } : one)),
    pools: () => [],
    incidents: () => ({ refusal: null, unknown_models: [] }),
    tokensHistory: () => ({ values: [], until: Number.POSITIVE_INFINITY }),
    launches: () => (launch ? [launch as unknown as LaunchRow] : []),
    acknowledged: (problems) =>
      problems.map((problem) => ({ ...problem, acknowledged: null, muted_until: null })),
    scaling: () => null,
    aliases: () => [],
  });
  const view = () => {
    projection.refresh(fleet.nowMs);
    const { workers, attention, summary } = projection.view();
    const state = workers.find(({ worker_id }) => worker_id === 'x')?.state;
    return { state, attention: attention.map(({ code }) => code), verdict: summary.verdict };
  };
  launch = { id: '1', name: 'x', state: 'terminating', intended_at: 0 } as LaunchRecord;
  expect(view()).toEqual({ state: 'error', attention: ['worker_error'], verdict: 'degraded' });
  launch = { ...launch, state: 'failed' };
  expect(view()).toEqual({ state: 'stopped', attention: [], verdict: 'serving' });
});

describe('the verdict that is shown', () => {
  type Step = [second: number, found: Verdict, shown: Verdict];
  it.each<[string, Step[]]>([
    [
      'follows what is found',
      [
        [0, 'empty', 'empty'],
        [1, 'not_serving', 'not_serving'],
        [30, 'serving', 'serving'],
        [600, 'degraded', 'degraded'],
        [620, 'serving', 'serving'],
      ],
    ],
    [
      'is better only after two minutes where a better one was taken back',
      [
        [0, 'degraded', 'degraded'],
        [10, 'serving', 'serving'],
        [20, 'degraded', 'degraded'],
        [30, 'serving', 'degraded'],
        [40, 'degraded', 'degraded'],
        [50, 'serving', 'degraded'],
        [169, 'serving', 'degraded'],
        [170, 'serving', 'serving'],
      ],
    ],
    [
      'is worse at once, however shaky',
      [
        [0, 'serving', 'serving'],
        [1, 'degraded', 'degraded'],
        [2, 'serving', 'serving'],
        [3, 'degraded', 'degraded'],
        [4, 'not_serving', 'not_serving'],
        [5, 'degraded', 'degraded'],
        [6, 'serving', 'degraded'],
        [125, 'serving', 'degraded'],
        [126, 'serving', 'serving'],
      ],
    ],
    [
      'never says that nothing is served where something is',
      [
        [0, 'not_serving', 'not_serving'],
        [5, 'serving', 'serving'],
        [10, 'not_serving', 'not_serving'],
        [15, 'serving', 'degraded'],
        [134, 'serving', 'degraded'],
        [135, 'serving', 'serving'],
      ],
    ],
    [
      'is steady again after five minutes',
      [
        [0, 'degraded', 'degraded'],
        [1, 'serving', 'serving'],
        [302, 'degraded', 'degraded'],
        [303, 'serving', 'serving'],
      ],
    ],
  ])('%s', (_case, steps) => {
    let state: Steady | null = null;
    for (const [second, found, shown] of steps) {
      state = steadied(state, found, second * 1000);
      expect([second, state.shown]).toEqual([second, shown]);
    }
  });

  it('changes three times at most in a fleet that goes up and down, and says that it recovers', () => {
    const fleet = serving();
    const shown: Verdict[] = [];
    for (let second = 0; second < 75; second += 1) {
      const isDown = second % 8 < 3;
      fleet.heartbeat('x', { ...wrongUrl, status: isDown ? 'error' : 'stopping' });
      const { summary } = fleet.view();
      if (shown.at(-1) !== summary.verdict) shown.push(summary.verdict);
      if (second === 60) expect(summary.text).toBe('Recovering: cfg is served: 1 worker ready.');
      fleet.advance(1);
    }
    expect(shown).toEqual(['degraded', 'serving', 'degraded']);
  });
});
