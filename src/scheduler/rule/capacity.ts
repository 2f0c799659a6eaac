import type { Launch } from '../launch.ts';
import type { SessionShare } from '../machines.ts';
import type { Observed } from '../rule-types.ts';

/** The assumed length of a start until three starts were seen, s. */
const PRIOR_SECONDS = 180;
const ENOUGH = 3;
/** The upper bound of a start's length, s, since the clock may have jumped meanwhile. */
const LONGEST_SECONDS = 30 * 60;
/** The number of newest starts that count. */
const NEWEST = 30;
/** A start is never given up in fewer ms than this. */
const LEAST_DEADLINE_MS = 10 * 60_000;
/** A start that makes progress gets this many deadlines in all. */
const MOVING_DEADLINES = 6;

/** The time from the decision to a healthy engine, s. */
export interface StartSeconds {
  p50: number;
  p80: number;
  p90: number;
  /** The number of starts. */
  count: number;
}

/** Returns how long these launches took to start: those of a pool, or of one instance type. */
export function startSeconds(launches: Launch[]): StartSeconds {
  const seen = launches
    .filter(({ ready_at }) => ready_at !== null)
    .sort((one, other) => other.intended_at - one.intended_at)
    .slice(0, NEWEST)
    .map(({ intended_at, ready_at }) => ((ready_at ?? 0) - intended_at) / 1000)
    .map((seconds) => Math.min(LONGEST_SECONDS, Math.max(1, seconds)));
  const sorted = (seen.length < ENOUGH ? [...seen, PRIOR_SECONDS, PRIOR_SECONDS] : seen).sort(
    (a, b) => a - b,
  );
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { p50: at(0.5), p80: at(0.8), p90: at(0.9), count: seen.length };
}

const STARTING = new Set<Launch['state']>(['intended', 'requested', 'accepted', 'registered']);

export function isStarting({ state }: Launch): boolean {
  return STARTING.has(state);
}

/** Returns whether no launcher has answered the order yet, so that nobody knows whether a machine exists. */
export function isUnanswered({ state }: Launch): boolean {
  return state === 'intended' || state === 'requested';
}

/**
 * Returns whether a launch counts as coming capacity. One that takes much longer than usual does not, unless its order
 * is merely unanswered and its provider has a fresh list: the order is repeated soon, or lists show that there is no
 * machine, and another launch before that would make a second machine.
 */
function isReliedUpon(launch: Launch, start: StartSeconds, isHeard: boolean, now: number): boolean {
  if (isUnanswered(launch) && isHeard) return true;
  const since = launch.accepted_at ?? launch.intended_at;
  return isStarting(launch) && now - since < Math.max(60, 3 * start.p80) * 1000;
}

/**
 * Returns whether to terminate a start that is neither ready in time nor makes progress.
 * @param progressedAt when its worker last reported progress, epoch ms; null: it never did
 */
export function isOverdue(
  launch: Launch,
  start: StartSeconds,
  progressedAt: number | null,
  now: number,
): boolean {
  if (!isStarting(launch) || launch.accepted_at === null) return false;
  const deadline = Math.max(LEAST_DEADLINE_MS, 3 * start.p90 * 1000);
  const moved = Math.max(launch.accepted_at, progressedAt ?? 0);
  return now - moved > deadline || now - launch.accepted_at > MOVING_DEADLINES * deadline;
}

/** Returns the seconds until the launch is expected to be ready; a tenth of a start if it is late already. */
export function readyIn({ intended_at }: Launch, { p80 }: StartSeconds, now: number): number {
  return Math.max(0.1 * p80, p80 - (now - intended_at) / 1000);
}

/** A ready worker that is disconnected for this many ms no longer counts as capacity. */
const AWAY_MS = 60_000;
/**
 * A ready worker that is disconnected for this many ms is terminated: it serves no jobs, although its container may
 * run.
 */
const LOST_MS = 10 * 60_000;

/** The workers of a pool, by what can be expected of them. */
export interface Capacity {
  /** Launches that take jobs. */
  ready: Launch[];
  /** The number of workers that take jobs and were not launched by the scheduler. */
  others: number;
  /** Launches that are starting, and expected to become ready. */
  starting: Launch[];
  /** Launches that have been starting for much longer than usual. */
  late: Launch[];
  /** Draining launches, which may be taken back. */
  draining: Launch[];
  /** Launches that were ready once, and have been disconnected for too long. */
  lost: Launch[];
}

/** Sorts the workers of a pool. @param isHeard returns whether the launch's provider has a fresh list */
export function capacityOf(
  launches: Launch[],
  sessions: SessionShare[],
  awaySince: Record<string, number>,
  start: StartSeconds,
  isHeard: (launch: Launch) => boolean,
  now: number,
): Capacity {
  const byId = new Map(sessions.map((session) => [session.worker_id, session]));
  const awayMs = ({ name }: Launch) => now - (awaySince[name] ?? now);
  const isLeaving = ({ name }: Launch) => byId.get(name)?.state === 'draining';
  const names = new Set(launches.map(({ name }) => name));
  // A worker that drains before it was ready has had notice that its machine is taken away.
  const starting = launches.filter((launch) => isStarting(launch) && !isLeaving(launch));
  const isReliable = (launch: Launch) => isReliedUpon(launch, start, isHeard(launch), now);
  const ready = launches.filter(({ state }) => state === 'ready');
  return {
    ready: ready.filter((launch) => !isLeaving(launch) && awayMs(launch) <= AWAY_MS),
    others: sessions.filter(
      ({ worker_id, state, capacity }) => !names.has(worker_id) && state !== 'draining' && capacity > 0,
    ).length,
    starting: starting.filter(isReliable),
    late: starting.filter((launch) => !isReliable(launch)),
    // The queue shows a worker of the cordon as draining too; that one serves on once it is out of the cordon.
    draining: launches.filter(({ state, name }) => state === 'draining' && !byId.get(name)?.drains_itself),
    lost: ready.filter((launch) => awayMs(launch) > LOST_MS),
  };
}

/** Returns the capacity without some launches. */
export function capacityWithout(launches: readonly Launch[], capacity: Capacity): Capacity {
  const isOther = (launch: Launch) => !launches.includes(launch);
  const { ready, starting, late } = capacity;
  return {
    ...capacity,
    ready: ready.filter(isOther),
    starting: starting.filter(isOther),
    late: late.filter(isOther),
  };
}

interface Ranking {
  idleSince: Record<string, number>;
  /** Returns the cost of a launch, per token if that is known. */
  costOf(launch: Launch): number;
  /** Returns a number that is smaller for workers that are to end sooner, whatever they do. */
  rankOf(launch: Launch): number;
}

/**
 * Returns the launches in the order in which they are to end: those not yet registered, youngest first, since they have
 * cost least; then others that are starting; then by rank; then idle ones, longest idle first; then the least busy.
 * Among equals, the dearest per token is first.
 */
export function inOrderOfVictims(
  launches: Launch[],
  { machines }: Pick<Observed, 'machines'>,
  { idleSince, costOf, rankOf }: Ranking,
): Launch[] {
  const rank = (launch: Launch): number[] => {
    const running = machines.get(launch.name)?.session?.running ?? 0;
    if (isStarting(launch)) {
      return [launch.registered_at === null ? 0 : 1, 0, -launch.intended_at, -costOf(launch)];
    }
    return [2 + rankOf(launch), running, idleSince[launch.name] ?? Number.POSITIVE_INFINITY, -costOf(launch)];
  };
  return launches
    .map((launch) => ({ launch, rank: [...rank(launch), launch.intended_at] }))
    .sort((one, other) => compare(one.rank, other.rank))
    .map(({ launch }) => launch);
}

function compare(one: number[], other: number[]): number {
  for (const [index, value] of one.entries()) {
    const against = other[index] ?? 0;
    if (value !== against) return value < against ? -1 : 1;
  }
  return 0;
}
