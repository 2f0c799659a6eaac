import type { Launch } from '../launch.ts';
import type { Observed } from '../rule-types.ts';
import type { Capacity } from './capacity.ts';

/**
 * Workers that were started with what the fleet's file said of their pool before it was changed. They serve until
 * others are ready: one is launched in the place of one of them, which is drained when that one takes jobs, and so on.
 */
export interface Exchange {
  /** Outdated workers that serve on. */
  outdated: Launch[];
  /** Outdated workers whose replacements take jobs. */
  replaced: Launch[];
  /** Replacements on their way, each in the place of a worker that serves on: they add no capacity beside that one. */
  replacing: Launch[];
}

export const NO_EXCHANGE: Exchange = { outdated: [], replaced: [], replacing: [] };

/** @param isHeard whether the launch's provider has told lately what it has */
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

/** Returns the capacity without workers that are drained now and starts that take the place of one that serves. */
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
