import type { Launch } from '../launch.ts';

/** The assumed length of a start until three were seen, s. */
const PRIOR_SECONDS = 180;
const ENOUGH = 3;
/** The upper bound of a start's length, s, since the clock may have jumped meanwhile. */
const LONGEST_SECONDS = 30 * 60;
/** This many of the newest starts count. */
const NEWEST = 30;
/** A start is never given up in fewer ms than this. */
const LEAST_DEADLINE_MS = 10 * 60_000;
/** A start that makes progress gets this many deadlines in all. */
const MOVING_DEADLINES = 6;

/** The seconds from the decision to a healthy engine. */
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

/** Returns whether no launcher has answered the order yet, so that it is unknown whether a machine exists. */
export function isUnanswered({ state }: Launch): boolean {
  return state === 'intended' || state === 'requested';
}

/**
 * Returns whether a launch counts as coming capacity. One that takes much longer than usual does not, unless its order
 * is merely unanswered while its provider has a fresh list: the order is repeated soon, or lists show that there is no
 * machine, and another launch meanwhile would be a second machine.
 */
export function isReliedUpon(launch: Launch, start: StartSeconds, isHeard: boolean, now: number): boolean {
  if (isUnanswered(launch) && isHeard) return true;
  const since = launch.accepted_at ?? launch.intended_at;
  return isStarting(launch) && now - since < Math.max(60, 3 * start.p80) * 1000;
}

/**
 * Returns whether to terminate a start: it is neither ready in time nor makes progress.
 * @param progressedAt when its worker last reported progress, epoch ms; null where it never did
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

/** Returns the seconds until the launch is expected to be ready; a tenth of a start when it is late already. */
export function readyIn({ intended_at }: Launch, { p80 }: StartSeconds, now: number): number {
  return Math.max(0.1 * p80, p80 - (now - intended_at) / 1000);
}
