import type { Launch } from '../launch.ts';
import type { ObservedPool } from '../rule-types.ts';
import { classifiedAt } from './breaker.ts';
import { isStarting } from './capacity.ts';

/**
 * This file has what the rule knows of spot machines: how many a pool may rely on, what their losses cost, and when
 * they rest.
 */

type SpotSpec = Pick<ObservedPool['spec'], 'spot' | 'batch_only' | 'machines'>;

export interface SpotRule {
  /** The number of workers that are not to be on spot machines. */
  base: number;
  /** How long a spot machine has to be ready before the on-demand one in whose place it came is drained, ms. */
  back_after_ms: number;
}

const BACK_AFTER_SECONDS = 20 * 60;

/** Returns a pool's rule for spot machines; null: it has none. Lines of batches can wait, and need no base. */
export function spotRuleOf({ spot, batch_only, machines }: SpotSpec): SpotRule | null {
  if (!machines.some((machine) => machine.spot)) return null;
  return {
    base: spot?.base ?? (batch_only ? 0 : 1),
    back_after_ms: 1000 * (spot?.back_after ?? BACK_AFTER_SECONDS),
  };
}

/** Preemptions within this many ms are one: a provider that needs its machines takes many at once. */
const TOGETHER_MS = 60_000;
/** From the second preemption within this many ms on, its instance type rests. */
const WITHIN_MS = 3_600_000;
const FIRST_REST_MS = 15 * 60_000;
const LONGEST_REST_MS = 4 * 3_600_000;

/** The preemptions of an instance type at a provider that follow each other closely. */
export interface Rest {
  /** Until when no spot machine of the instance type is launched, epoch ms. */
  until: number;
  /** When its newest preemption was, epoch ms. */
  at: number;
  /** The number of preemptions in a row. */
  count: number;
}

/** Returns the rest of an instance type from the launches of its spot machines; null: it needs none. */
export function restOf(launches: readonly Launch[]): Rest | null {
  let rest: Rest | null = null;
  for (const at of timesOfPreemptions(launches)) {
    // What came after a rest that was longer than the time between two counts on, or the rests would never grow.
    const isNext = rest !== null && at - Math.max(rest.at, rest.until) <= WITHIN_MS;
    const count: number = isNext ? rest!.count + 1 : 1;
    rest = { at, count, until: at + restMs(count) };
  }
  return rest !== null && rest.count > 1 ? rest : null;
}

function restMs(count: number): number {
  return count < 2 ? 0 : Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** (count - 2));
}

/** Returns when machines were taken back, oldest first, epoch ms; those that were taken together count once. */
function timesOfPreemptions(launches: readonly Launch[]): number[] {
  const all = launches
    .filter(({ cause }) => cause === 'preempted')
    .map(classifiedAt)
    .sort((one, other) => one - other);
  // Each is compared with the first of its group: one machine every 50 s for an hour is no single preemption.
  const times: number[] = [];
  for (const at of all) if (at - (times.at(-1) ?? Number.NEGATIVE_INFINITY) > TOGETHER_MS) times.push(at);
  return times;
}

/** Spot machines are taken to have served this many ms before the first is seen, so that one early loss says little. */
const PRIOR_SERVED_MS = 3_600_000;

/**
 * Returns the share of the time that is lost to starts after preemptions: each costs one start, in which another machine
 * is paid for and serves nobody.
 * @param launches those of the spot machines of one instance type for one pool
 * @param startSeconds how long a start takes
 */
export function lostShare(launches: readonly Launch[], startSeconds: number, now: number): number {
  const preemptions = launches.filter(({ cause }) => cause === 'preempted').length;
  if (preemptions === 0) return 0;
  const lost = preemptions * startSeconds * 1000;
  const served = launches.reduce((sum, { ready_at, terminating_at, ended_at }) => {
    return ready_at === null ? sum : sum + Math.max(0, (terminating_at ?? ended_at ?? now) - ready_at);
  }, PRIOR_SERVED_MS);
  return lost / (lost + served);
}

/** Launches whose worker serves, or will. */
export function isStaying(launch: Launch): boolean {
  return launch.state === 'ready' || isStarting(launch);
}

/**
 * A spot machine in the place of an on-demand one, or an on-demand one in the place of a spot machine that stands where
 * one of the base should be. Until it has served long enough it adds nothing to its pool's capacity.
 */
export interface Swaps {
  /** Launches that start or serve in the place of one that still serves. */
  beside: Launch[];
  /** Workers that are no longer needed, since others have served in their places for long enough. */
  replaced: Launch[];
}

export const NO_SWAPS: Swaps = { beside: [], replaced: [] };

/** @param takesJobs returns whether the worker of a ready launch takes jobs now */
export function swapsOf(
  launches: readonly Launch[],
  { back_after_ms }: SpotRule,
  takesJobs: (launch: Launch) => boolean,
  now: number,
): Swaps {
  const swaps: Swaps = { beside: [], replaced: [] };
  for (const launch of launches.filter(isStaying)) {
    const other = launches.find(({ id }) => id === launch.replaces);
    if (other?.state !== 'ready' || other.is_spot === launch.is_spot) continue;
    // Of two versions the rollout decides.
    if (other.version !== launch.version) continue;
    const afterMs = launch.is_spot ? back_after_ms : 0;
    const hasServed = launch.state === 'ready' && now - (launch.ready_at ?? now) >= afterMs;
    if (hasServed && takesJobs(launch)) swaps.replaced.push(other);
    else swaps.beside.push(launch);
  }
  return swaps;
}

/**
 * Returns the on-demand launches that make up the base: those that did not come as stand-ins first, of these the ones
 * that serve.
 */
export function baseOf(launches: readonly Launch[], { base }: SpotRule): Launch[] {
  const rank = ({ is_stand_in, state }: Launch) => (is_stand_in ? 2 : 0) + (state === 'ready' ? 0 : 1);
  return launches
    .filter((launch) => !launch.is_spot && isStaying(launch))
    .sort((one, other) => rank(one) - rank(other) || one.intended_at - other.intended_at)
    .slice(0, base);
}

/**
 * Returns the order in which workers are to end: stand-ins before other workers that serve, and the base last, also
 * where it is still starting.
 * @param victims in the order in which they would end otherwise
 */
export function spotVictims(victims: readonly Launch[], all: readonly Launch[], rule: SpotRule): Launch[] {
  const base = new Set(baseOf(all, rule));
  const rank = (launch: Launch) => {
    if (base.has(launch)) return 3;
    if (isStarting(launch)) return 0;
    return launch.is_stand_in ? 1 : 2;
  };
  return victims.toSorted((one, other) => rank(one) - rank(other));
}
