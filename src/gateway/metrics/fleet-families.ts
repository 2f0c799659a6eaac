import type { FleetView, WorkerState } from '../../protocol/index.ts';
import { PROBLEM_KINDS } from '../../protocol/problem-kinds.ts';
import { by, type Family, gauge, type Sample, withPool } from './exposition.ts';

/** The common name of the pools that the queue does not count by name: a submission may name any pool. */
const OTHER = 'other';

const STATES = Object.keys({
  starting: 0,
  loading: 0,
  ready: 0,
  running: 0,
  paused: 0,
  late: 0,
  draining: 0,
  error: 0,
  lost: 0,
  stopped: 0,
} satisfies Record<WorkerState, 0>) as WorkerState[];

/**
 * Returns what only the fleet object knows, as its view shows it, so that page and alerts agree.
 * @param pools the pools of the queue
 */
export function fleetFamilies(fleet: FleetView, pools: ReadonlySet<string>): Family[] {
  return [...workerFamilies(fleet, pools), ...objectiveFamilies(fleet.pools)];
}

function workerFamilies({ workers, attention }: FleetView, pools: ReadonlySet<string>): Family[] {
  const states = new Map([...pools].map((pool) => [pool, zeros(STATES)]));
  const starts = new Map<string, number>();
  for (const { config_id, state, expected_start_ms } of workers) {
    const pool = config_id !== null && pools.has(config_id) ? config_id : OTHER;
    const counts = states.get(pool) ?? zeros(STATES);
    counts[state] += 1;
    states.set(pool, counts);
    if (expected_start_ms !== null && pool !== OTHER) starts.set(pool, expected_start_ms / 1000);
  }
  const needs = zeros(PROBLEM_KINDS);
  for (const { code } of attention) needs[code] += 1;
  return [
    gauge(
      'workers',
      'Workers by what they do, as the page shows them.',
      [...states].flatMap(([pool, counts]) => withPool(pool, by('status', counts))),
    ),
    gauge(
      'expected_start_seconds',
      'How long a worker of the pool takes to start: the median of the newest starts.',
      [...starts].map(([pool, value]) => ({ labels: { pool }, value })),
    ),
    gauge('attention', 'Things that need somebody, as the page lists them.', by('code', needs)),
  ];
}

/** Returns how pools stand with their objectives, as the page shows it. */
function objectiveFamilies(pools: FleetView['pools']): Family[] {
  const each = (samples: (pool: FleetView['pools'][number]) => Sample[]) =>
    pools.flatMap((pool) => withPool(pool.config_id, samples(pool)));
  const NAMES = ['first_token', 'success'] as const;
  return [
    gauge(
      'objective_budget_ratio',
      'Share of callers whose first token may be late, and of jobs that may not succeed.',
      each(({ objectives }) =>
        NAMES.map((objective) => ({ labels: { objective }, value: 1 - objectives[objective].share })),
      ),
    ),
    gauge(
      'objective_burn_rate',
      'How much faster than that an objective is missed, over five minutes and an hour; 0 when nothing ended.',
      each(({ objectives }) =>
        NAMES.flatMap((objective) =>
          (['short', 'long'] as const).map((window) => ({
            labels: { objective, window: window === 'short' ? '5m' : '1h' },
            value: objectives[objective][window].burn ?? 0,
          })),
        ),
      ),
    ),
  ];
}

function zeros<K extends string>(keys: readonly K[]): Record<K, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<K, number>;
}
