import type { Launch } from '../launch.ts';
import type { Observed } from '../rule-types.ts';
import type { Capacity } from './capacity.ts';

/**
 * The workers of a pool that were started before its part of the fleet's file was changed, and their replacements.
 * They serve until others are ready: one is launched in the place of one of them, which is drained when that one takes
 * jobs, and so on.
 */
export interface Exchange {
  /** Outdated workers that still serve. */
  outdated: Launch[];
  /** Outdated workers whose replacements take jobs. */
  replaced: Launch[];
  /**
   * Replacements that are starting, each in the place of a worker that still serves: they add no capacity beside that
   * one.
   */
  replacing: Launch[];
}

export const NO_EXCHANGE: Exchange = { outdated: [], replaced: [], replacing: [] };

/** @param isHeard returns whether the launch's provider has a fresh list */
export function exchangeOf(
  observed: Observed,
  { ready, starting, late }: Capacity,
  awaySince: Record<string, number>,
  isHeard: (launch: Launch) => boolean,
): Exchange {
  const old = ready.filter(({ id }) => observed.outdated.includes(id));
  const takesJobs = ({ name }: Launch) => {
    const session = observed.workers.get(name)?.session;
    return session != null && session.state !== 'draining' && session.capacity > 0 && !(name in awaySince);
  };
  const isReplaced = (launch: Launch) =>
    isHeard(launch) && ready.some((other) => other.replaces === launch.id && takesJobs(other));
  const outdated = old.filter((launch) => !isReplaced(launch));
  return {
    outdated,
    replaced: old.filter(isReplaced),
    replacing: [...starting, ...late].filter(({ replaces }) => outdated.some(({ id }) => id === replaces)),
  };
}

/** Returns the capacity without workers that are drained now, and without starts that replace one that serves. */
export function capacityBeside({ replaced, replacing }: Exchange, capacity: Capacity): Capacity {
  const isOther = (launch: Launch) => !replaced.includes(launch) && !replacing.includes(launch);
  const { ready, starting, late } = capacity;
  return {
    ...capacity,
    ready: ready.filter(isOther),
    starting: starting.filter(isOther),
    late: late.filter(isOther),
  };
}
