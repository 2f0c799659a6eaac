import { isFinal, type Launch } from '../launch.ts';
import type { PoolMemory } from '../rule-types.ts';
import { candidatesOf, chooseMixed } from './market.ts';
import { mainVersion } from './rollout.ts';
import { isHeard, launches, type Plan, plural, type Round, type Step, victimsIn } from './round.ts';
import { baseOf, isStaying } from './spot.ts';
import type { Target } from './target.ts';

const NOTHING: Plan = { steps: [], text: '' };

/**
 * Launches a worker in the place of one that is on the wrong kind of machine, once the right kind is to be had: a spot
 * machine for an on-demand one that stands in for it, or an on-demand machine for the base. One at a time, beside the
 * one that it replaces, and only while the pool is to keep as many workers as it has.
 * @param steps the steps decided before
 */
export function goOnSwapping(round: Round, memory: PoolMemory, target: Target, steps: readonly Step[]): Plan {
  const { pool, mine, market, observed, capacity, rollout, swaps, spot, have } = round;
  const isMoving =
    steps.length > 0 || capacity.starting.length + capacity.late.length + swaps.beside.length > 0;
  const isRolling = rollout.old.length + rollout.unproved.length > 0;
  if (!spot || isMoving || isRolling || target.wanted < have) return NOTHING;
  const base = baseOf(mine, spot);
  const isBaseMissing = base.length < Math.min(spot.base, have);
  const isMisplaced = (launch: Launch) =>
    isBaseMissing ? launch.is_spot : launch.is_stand_in && !base.includes(launch);
  const misplaced = capacity.ready.filter((launch) => isMisplaced(launch) && isHeard(observed, launch));
  const [next] = victimsIn(round, memory, misplaced);
  if (!next) return NOTHING;
  const others = mine.filter((launch) => isStaying(launch) && launch !== next);
  const choice = chooseMixed(candidatesOf(pool, market, mainVersion(rollout)), spot, others, market.now);
  if (choice.kind === 'none' || choice.candidate.learned.skipped_because !== null) return NOTHING;
  if ((choice.candidate.machine.spot ?? false) === next.is_spot) return NOTHING;
  const why = isBaseMissing
    ? `${plural(spot.base, 'worker')} of the pool ${spot.base === 1 ? 'is' : 'are'} to be on-demand.`
    : 'Spot machines are to be had again.';
  const { max } = pool.spec;
  if (mine.filter((launch) => !isFinal(launch)).length >= max) {
    const text = `${why} But max is ${max}, which leaves no room for one beside the worker that it would replace.`;
    return { steps: [], text };
  }
  const launched = launches(round, 1, { reason: why, replaces: [next.id], isBeside: true });
  if (launched.steps.length === 0) return launched;
  return { ...launched, text: `${why} One is launched in the place of one that serves.` };
}

/** Drains workers in whose places others have served for long enough. */
export function endSwapped({ swaps }: Round): Step[] {
  return swaps.replaced.map(({ id, is_spot }) => {
    const what = is_spot ? 'An on-demand machine' : 'A spot machine';
    return { kind: 'drain', launch_id: id, reason: `${what} has served in its place for long enough.` };
  });
}
