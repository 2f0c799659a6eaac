import type { Launch } from '../launch.ts';
import type { Observed } from '../rule-types.ts';
import { isStarting } from './starts.ts';

/**
 * Returns the launches in the order in which they are ended: those not yet registered, youngest first, since they have
 * cost least; then others that are starting; then those whose pool has been changed since; then idle ones, idle for
 * longest first; then the least busy. Among equals, the dearest per token is first.
 * @param cost returns the cost of a launch, per token where it is known
 */
export function inOrderOfVictims(
  launches: Launch[],
  { workers, outdated }: Pick<Observed, 'workers' | 'outdated'>,
  idleSince: Record<string, number>,
  cost: (launch: Launch) => number,
): Launch[] {
  const rank = (launch: Launch): number[] => {
    const running = workers.get(launch.name)?.session?.running ?? 0;
    if (isStarting(launch)) {
      return [launch.registered_at === null ? 0 : 1, 0, -launch.intended_at, -cost(launch)];
    }
    return [
      outdated.includes(launch.id) ? 2 : 3,
      running,
      idleSince[launch.name] ?? Number.POSITIVE_INFINITY,
      -cost(launch),
    ];
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
