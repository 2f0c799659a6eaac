import type { Launch } from '../launch.ts';

/** What a start is taken to last until three were seen, s. */
const PRIOR_SECONDS = 180;
const ENOUGH = 3;
/** However long it seems to have taken: the clock may have jumped while it started, s. */
const LONGEST_SECONDS = 30 * 60;
/** The newest starts that are looked at. */
const NEWEST = 30;
/** A start is never given up before this, ms. */
const LEAST_DEADLINE_MS = 10 * 60_000;
/** A start that moves on has so many deadlines in all. */
const MOVING_DEADLINES = 6;

/** Seconds from the decision to a healthy engine. */
export interface StartSeconds {
  p50: number;
  p80: number;
  p90: number;
  /** Of how many starts. */
  count: number;
}

/** How long starts of a config take, on one kind of machine or on all of them. */
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

/** Nobody has told of a machine of it: whether there is one, or will be, is not known. */
export function isUnanswered({ state }: Launch): boolean {
  return state === 'intended' || state === 'requested';
}

/**
 * Counts as capacity that is to come. One that takes much longer than others is not relied upon, unless it is only
 * unanswered by a provider that is heard: its order is given again soon, or lists tell that there is nothing, and one
 * more launched meanwhile would be a second machine.
 */
export function isReliedUpon(launch: Launch, start: StartSeconds, isHeard: boolean, now: number): boolean {
  if (isUnanswered(launch) && isHeard) return true;
  const since = launch.accepted_at ?? launch.intended_at;
  return isStarting(launch) && now - since < Math.max(60, 3 * start.p80) * 1000;
}

/**
 * Whether a start is to be given up: it is neither ready in time nor moves on.
 * @param progressedAt when its worker last told that it has come further; null: never
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

/** In how many seconds it is expected to be ready; one that is late already, in a tenth of a start. */
export function readyIn({ intended_at }: Launch, { p80 }: StartSeconds, now: number): number {
  return Math.max(0.1 * p80, p80 - (now - intended_at) / 1000);
}
