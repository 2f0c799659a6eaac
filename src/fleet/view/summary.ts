import {
  type Attention,
  type FleetSummary,
  isFinal,
  type LaunchRow,
  type PoolRow,
  type Verdict,
  type WorkerRow,
  withFullStop,
} from '../../protocol/index.ts';
import { isPutOff, missedNow, waitingIn, waitsLong } from './pool-row.ts';
import { heldBack } from './pool-start.ts';
import { whyNoneReady } from './why-waiting.ts';
import { counted, jobsWait, span } from './words.ts';
import { atWork, isReady } from './worker-row.ts';

/** The scheduler decides every five seconds, and so has decided on work that has waited for this long, ms. */
const DECIDED_WITHIN_MS = 15_000;

/** Sums up the state of the whole fleet at this moment in one line. */
export function summaryOf(rows: Rows, now: number): FleetSummary {
  const { pools, workers } = rows;
  const { verdict, text } = verdictOf(rows, now);
  const there = workers.filter(({ state }) => atWork(state));
  const speeds = there.flatMap(({ tokens_per_second }) => tokens_per_second ?? []);
  const waits = pools.flatMap(({ oldest_wait_ms }) => oldest_wait_ms ?? []);
  return {
    verdict,
    text,
    workers: there.length,
    ready_workers: there.filter(({ state }) => isReady(state)).length,
    slots: sum(pools, ({ slots }) => slots),
    busy_slots: sum(pools, ({ busy_slots }) => busy_slots),
    waiting: sum(pools, waitingIn),
    oldest_wait_ms: waits.length > 0 ? Math.max(...waits) : null,
    tokens_per_second: speeds.length > 0 ? sum(speeds, (speed) => speed) : null,
  };
}

/** Returns the summary with the worse verdict that is still shown until its own verdict has held. */
export function recovering(summary: FleetSummary, shown: Verdict): FleetSummary {
  if (summary.verdict === shown) return summary;
  return { ...summary, verdict: shown, text: `Recovering: ${summary.text}` };
}

interface Rows {
  pools: readonly PoolRow[];
  workers: readonly WorkerRow[];
  launches: readonly LaunchRow[];
  attention: readonly Attention[];
}

function verdictOf(rows: Rows, now: number): { verdict: Verdict; text: string } {
  const { pools, workers } = rows;
  const problems = pools
    .flatMap((pool) => {
      const problem = problemOf(pool, rows, now);
      return problem === null ? [] : [{ pool, problem }];
    })
    .sort((a, b) => (b.pool.oldest_wait_ms ?? -1) - (a.pool.oldest_wait_ms ?? -1));
  const [worst] = problems;
  const because = worst ? `${worst.pool.config_id}: ${worst.problem}` : '';
  const scaled = pools.filter(({ scaling }) => scaling);
  if (workers.length === 0 && !worst && scaled.length === 0) {
    return { verdict: 'empty', text: 'No worker has connected yet.' };
  }
  if (!workers.some(({ state }) => isReady(state))) {
    if (!worst) return scaledToZero(scaled);
    // Work that waits for a start that is under way, or about to be, will be served later.
    const isStarting = problems.every(({ pool }) => isStarted(pool));
    return { verdict: isStarting ? 'degraded' : 'not_serving', text: withFullStop(because) };
  }
  // A pool that has neither workers nor jobs is not in use.
  const inUse = pools.filter((pool) => pool.workers > 0 || waitingIn(pool) > 0);
  if (!worst) {
    const isWhole = !workers.some((worker) => isMissed(worker, rows));
    return { verdict: isWhole ? 'serving' : 'degraded', text: served(inUse, rows) };
  }
  const count = `${inUse.length - problems.length} of ${counted(inUse.length, 'pool')} fine`;
  return { verdict: 'degraded', text: withFullStop(inUse.length === 1 ? because : `${count}; ${because}`) };
}

function isStarted({ scaling, oldest_wait_ms }: PoolRow): boolean {
  if (!scaling) return false;
  const isToCome = heldBack(scaling) === null && scaling.max > 0 && (oldest_wait_ms ?? 0) < DECIDED_WITHIN_MS;
  return scaling.starting > 0 || isToCome;
}

/** Says what is wrong with a pool, after its name; null: it is fine. */
function problemOf(pool: PoolRow, rows: Rows, now: number): string | null {
  const waiting = waitingIn(pool);
  const oldest = pool.oldest_wait_ms ?? 0;
  const isOwn = ({ config_id }: { config_id: string | null }) => config_id === pool.config_id;
  const { workers, launches } = rows;
  const own = {
    workers: workers.filter(isOwn),
    launches: launches.filter(isOwn),
    scaling: pool.scaling,
    fleet: null,
  };
  const isNoneReady = pool.ready_workers === 0;
  if (isPutOff(pool)) return null;
  const missed = missedNow(pool);
  // A missed objective lasts for minutes, so it is named before a line that waits, which comes and goes with each job.
  if (waiting > 0 && (isNoneReady || (missed === null && waitsLong(pool)))) {
    return `${jobsWait(waiting)} ${span(oldest)} because ${pool.why_waiting?.for}`;
  }
  const isExpected = (worker: WorkerRow) =>
    atWork(worker.state) && (worker.state !== 'error' || isMissed(worker, rows));
  if (isNoneReady && own.workers.some(isExpected)) return whyNoneReady(pool.config_id, own, now).for;
  return missed;
}

/**
 * Gives the verdict where nothing is ready and nothing waits. @param scaled pools that the scheduler starts workers for
 */
function scaledToZero(scaled: readonly PoolRow[]): { verdict: Verdict; text: string } {
  if (!scaled.some(({ scaling }) => heldBack(scaling) === null)) {
    return { verdict: 'not_serving', text: 'No worker is running.' };
  }
  const putOff = scaled.find(isPutOff);
  const what = putOff
    ? `${putOff.config_id}: ${putOff.why_waiting?.for}.`
    : 'a worker is started when work comes.';
  return { verdict: 'serving', text: `Scaled to zero: ${what}` };
}

/**
 * Returns whether the fleet lacks this worker: it failed or was lost within the hour, nobody has acknowledged that, and
 * the scheduler does not know that its machine is gone.
 */
function isMissed({ worker_id, state }: WorkerRow, { attention, launches }: Rows): boolean {
  if (state !== 'error' && state !== 'lost') return false;
  if (launches.some((launch) => launch.name === worker_id && isFinal(launch))) return false;
  return attention.some(
    (item) =>
      item.worker_id === worker_id &&
      (item.code === 'worker_error' || item.code === 'worker_lost') &&
      item.acknowledged === null,
  );
}

function served(inUse: readonly PoolRow[], rows: Rows): string {
  const { workers } = rows;
  const ready = workers.filter(({ state }) => isReady(state)).length;
  const there = workers.filter(({ state }) => atWork(state)).length;
  const what =
    inUse.length === 1 ? `${inUse[0]?.config_id} is served` : `All ${inUse.length} pools are served`;
  const who = ready === there ? counted(ready, 'worker') : `${ready} of ${there} workers`;
  const down = DOWN.flatMap(([state, words]) => {
    const are = workers.filter((worker) => worker.state === state);
    const count = are.filter((worker) => state === 'paused' || isMissed(worker, rows)).length;
    return count > 0 ? `, ${count} ${words}` : '';
  });
  return `${what}: ${who} ready${down.join('')}.`;
}

/** The states of workers for which others stand in, and which will not recover by themselves. */
const DOWN = [
  ['error', 'in error'],
  ['lost', 'lost'],
  ['paused', 'paused'],
] as const;

function sum<T>(list: readonly T[], of: (one: T) => number): number {
  return list.reduce((total, one) => total + of(one), 0);
}

/** A verdict that grows worse within this time after it grew better, ms, is unsteady. */
const SHAKY_MS = 5 * 60_000;
/** An unsteady verdict is shown as better only once it has been better for this long, ms. */
const HOLD_MS = 2 * 60_000;

const RANKS: Record<Verdict, number> = { empty: 0, serving: 0, degraded: 1, not_serving: 2 };

/** The verdict that is shown, and the history that decides about the next one. Times are epoch ms. */
export interface Steady {
  shown: Verdict;
  /** When the shown verdict last grew better; null: never. */
  improved_at: number | null;
  /** Whether the shown verdict has grown worse soon after it grew better. */
  is_shaky: boolean;
  /** The time since which a better verdict has been found than is shown; null: none is. */
  better_since: number | null;
}

/**
 * Decides which verdict is shown when `found` is found. A worse verdict is shown at once, and so is a better one; but
 * after a better verdict was soon taken back, the next one has to hold for a while first, so that a fleet at the edge
 * does not change its verdict with each request. A fleet that serves is never called down: in that time it is shown as
 * degraded.
 * @param before null: nothing was shown yet
 */
export function steadied(before: Steady | null, found: Verdict, now: number): Steady {
  if (before === null) return { shown: found, improved_at: null, is_shaky: false, better_since: null };
  const worse = RANKS[found] - RANKS[before.shown];
  if (worse === 0) return { ...before, shown: found, better_since: null };
  const { improved_at } = before;
  if (worse > 0) {
    const is_shaky = improved_at !== null && now - improved_at < SHAKY_MS;
    return { shown: found, improved_at, is_shaky: is_shaky || before.is_shaky, better_since: null };
  }
  const better_since = Math.min(before.better_since ?? now, now);
  if (before.is_shaky && now - better_since < HOLD_MS) {
    if (before.shown !== 'not_serving') return { ...before, better_since };
    return { ...before, shown: 'degraded', better_since: found === 'degraded' ? null : better_since };
  }
  return { shown: found, improved_at: now, is_shaky: false, better_since: null };
}
