import { isEnding, isFinal, type Launch } from '../launch.ts';
import type { PoolMemory, RolloutDecided } from '../rule-types.ts';
import { isStarting } from './capacity.ts';
import { proofInWords } from './judge.ts';
import { canaryPlaces } from './rollout.ts';
import {
  end,
  heldBackInWords,
  isHeard,
  launches,
  type Plan,
  plural,
  type Round,
  type Step,
  timeOfDay,
  victimsIn,
} from './round.ts';

/** Ends workers of other versions: those whose replacements serve, and those that nobody needs. */
export function endReplaced({ observed, rollout }: Round): Step[] {
  const { replaced, needless } = rollout;
  return [
    ...replaced.map((one) => leave(one, 'It has not the wanted version, and its replacement takes jobs.')),
    ...needless
      .filter((one) => isHeard(observed, one))
      .map((one) => leave(one, 'It has not the wanted version, and is not needed.')),
  ];
}

/** Ends a start, or drains a worker that serves. */
function leave(launch: Launch, reason: string): Step {
  return isStarting(launch) ? end(launch, null, reason) : { kind: 'drain', launch_id: launch.id, reason };
}

interface Replacing {
  steps: Step[];
  /** Null: no worker has another version than the wanted one. */
  rollout: RolloutDecided | null;
}

/**
 * Replaces workers of other versions: launches new ones beside them, as many as `surge` says and as there is room for;
 * drains old ones first, as many as `unavailable` says, and one where there has been no room for `patience`.
 * @param keep the number of workers that the pool keeps
 * @param before the steps decided before
 */
export function replaceOld(
  round: Round,
  keep: number,
  memory: PoolMemory,
  before: readonly Step[],
): Replacing {
  const { mine, rollout, market, takesJobs } = round;
  const { versions, old, owed, beside } = rollout;
  if (!versions || old.length + owed.length === 0) {
    memory.no_room_since = null;
    return { steps: [], rollout: null };
  }
  if (beside.some(({ accepted_at }) => accepted_at !== null)) memory.no_room_since = null;
  const inOrder = victimsIn(round, memory, old);
  const unpaired = inOrder.filter(({ id }) => !beside.some(({ replaces }) => replaces === id));
  const plan = versions.is_paused
    ? { steps: [], text: 'An operator holds the rollout.' }
    : nextStep(round, { keep, memory, before, unpaired });
  const serving = mine.filter((one) => one.version === versions.wanted && takesJobs(one));
  const isWatched = !versions.is_proved && plan.steps.length === 0;
  const has = old.length === 1 ? 'has' : 'have';
  const left =
    old.length === 0
      ? ''
      : `${old.length} of ${plural(mine.filter(takesJobs).length, 'worker')} ${has} another version than ${versions.wanted}.`;
  const texts = [left, isWatched ? proofInWords(serving, versions, market.now) : '', plan.text];
  return {
    steps: plan.steps,
    rollout: {
      text: texts.filter((text) => text !== '').join(' '),
      next: (unpaired[0] ?? inOrder[0])?.name ?? null,
      is_stuck: plan.isStuck ?? false,
    },
  };
}

type Next = Plan & { isStuck?: boolean };

interface Given {
  keep: number;
  memory: PoolMemory;
  before: readonly Step[];
  /** The old workers beside which no new one starts, in the order in which they go. */
  unpaired: Launch[];
}

function nextStep(round: Round, given: Given): Next {
  const { beside } = round.rollout;
  const { max } = round.pool.spec;
  const alive = aliveWith(round, given.before);
  if (alive > max && beside.length > 0)
    return { steps: beside.map((one) => leave(one, `${max} at most are to run.`)), text: '' };
  const owed = payOwed(round, given);
  if (owed.steps.length > 0 || given.unpaired.length === 0) return owed;
  const launched = launchBeside(round, given);
  if (launched.steps.length > 0) return launched;
  const first = mayBeMissing(round, given) ? given.unpaired[0] : undefined;
  if (first)
    return goesFirst(first, `${round.rollout.versions!.update.unavailable} may be missing meanwhile.`);
  return launched.isFull ? withoutRoom(round, given, launched.text) : launched;
}

/** Returns how many machines the pool has, those included that are launched now. */
function aliveWith({ mine }: Round, before: readonly Step[]): number {
  return mine.filter((launch) => !isFinal(launch)).length + launchedIn(before);
}

function launchedIn(steps: readonly Step[]): number {
  return steps.filter(({ kind }) => kind === 'launch').length;
}

/** Launches replacements for workers that were drained first, as far as the pool keeps so many. */
function payOwed(round: Round, { keep, before }: Given): Plan {
  const { rollout, have, pool } = round;
  const paid = before.flatMap((step) => (step.kind === 'launch' ? (step.replaces ?? []) : []));
  const left = rollout.owed.filter(({ id }) => !paid.includes(id));
  const needed = Math.min(left.length, keep - have - launchedIn(before));
  if (needed <= 0) return { steps: [], text: '' };
  const room = Math.min(needed, pool.spec.max - aliveWith(round, before));
  if (room <= 0) return { steps: [], text: 'A new one starts once the one that was drained for it is gone.' };
  const replaces = left.map(({ id }) => id);
  const plan = launches(round, room, { reason: 'It has the place of one that was drained first.', replaces });
  return plan.steps.length > 0 ? { ...plan, text: 'A new one is launched in the place of one.' } : plan;
}

/** Launches new workers beside old ones, as many as are allowed and as there is room for. */
function launchBeside(round: Round, { before, unpaired }: Given): Plan {
  const { rollout, pool } = round;
  const { breakers, beside } = rollout;
  const { update, wanted } = rollout.versions!;
  const beyond = inFlight(round) + leaving(round);
  const most = Math.min(update.surge - beyond, unpaired.length, placesLeft(round));
  if (most <= 0) {
    const text = beside.length > 0 ? `${plural(beside.length, 'new one')} on the way.` : '';
    return { steps: [], text };
  }
  const room = pool.spec.max - aliveWith(round, before);
  if (room <= 0) return withoutPlace(round);
  const plan = launches(round, Math.min(most, room), {
    reason: `Its pool goes over to version ${wanted}.`,
    replaces: unpaired.map(({ id }) => id),
    only: { version: wanted, most, breaker: breakers.wanted },
    isBeside: true,
  });
  const { length } = plan.steps;
  return length > 0 ? { ...plan, text: `${plural(length, 'new one')} launched beside.` } : plan;
}

/** There are as many machines as the pool may have; some may be about to end. */
function withoutPlace({ mine, pool }: Round): Plan {
  if (mine.some(isEnding)) return { steps: [], text: 'A new one starts once a worker that ends is gone.' };
  return {
    steps: [],
    text: `There is no room for a new one beside: max is ${pool.spec.max}.`,
    isFull: true,
  };
}

/** Returns how many machines of other versions end, which take room and are paid for until they have. */
function leaving({ mine, rollout }: Round): number {
  const before = mine.filter((one) => isEnding(one) && one.version !== rollout.versions!.wanted);
  return before.length + rollout.replaced.length + rollout.needless.length;
}

/** Returns how many new workers have yet to show that they serve. */
function inFlight({ rollout: { beside, unproved } }: Round): number {
  return Math.max(beside.length, unproved.length);
}

/** Returns how many more workers may have the wanted version, while it is tried on a part of the requests. */
function placesLeft({ mine, rollout, have }: Round): number {
  const { wanted } = rollout.versions!;
  const isThere = (one: Launch) => isStarting(one) || one.state === 'ready';
  return canaryPlaces(rollout, have) - mine.filter((one) => one.version === wanted && isThere(one)).length;
}

/** Returns how many workers were drained first and have no replacement that serves. */
function missingPlaces({ pool, mine, rollout, takesJobs }: Round): number {
  const isReplacement = ({ replaces }: Launch) => replaces !== null && pool.replaced_first.includes(replaces);
  const isAwaited = (one: Launch) => isStarting(one) || (one.state === 'ready' && !takesJobs(one));
  return mine.filter((one) => isReplacement(one) && isAwaited(one)).length + rollout.owed.length;
}

/** Returns whether one more may be drained before its replacement is launched, since so many may be missing. */
function mayBeMissing(round: Round, { keep }: Given): boolean {
  const { mine, rollout, capacity, takesJobs } = round;
  const { update, is_proved } = rollout.versions!;
  if (rollout.breakers.wanted.kind !== 'closed' || placesLeft(round) <= 0) return false;
  const isFree = is_proved || inFlight(round) < update.surge + update.unavailable;
  const serving = mine.filter(takesJobs).length + capacity.others;
  return isFree && missingPlaces(round) < update.unavailable && serving > keep - update.unavailable;
}

/** There has been no room for a worker beside the old ones: after a time one of them goes first, if others serve. */
function withoutRoom(round: Round, { memory, unpaired }: Given, full: string): Next {
  const { pool, mine, rollout, capacity, market, takesJobs } = round;
  const { update, is_proved } = rollout.versions!;
  memory.no_room_since ??= market.now;
  // A place that is made while no start of the version is tried would go to one of the version before.
  const held = heldBackInWords(rollout.breakers.wanted, market.now);
  if (held !== null) return { steps: [], text: `${full} ${held}` };
  if (missingPlaces(round) > 0 || (!is_proved && inFlight(round) > 0)) return { steps: [], text: full };
  const until = memory.no_room_since + update.patience * 1000;
  if (market.now < until) {
    const time = timeOfDay(until, market.now);
    return { steps: [], text: `${full} Unless there is some by ${time}, an old one goes first.` };
  }
  const serving = mine.filter(takesJobs).length + capacity.others;
  const [next] = unpaired;
  if (next && (serving > 1 || isIdle(round, memory, update.patience))) return goesFirst(next, full);
  const { config_id } = pool;
  return {
    steps: [],
    text: `${full} It is the only one that serves, so it stays until there was no work for ${seconds(update.patience)}: raise max, allow "update: {unavailable: 1}", or replace it with a pause by "worker-vllm fleet drain ${config_id}" and "worker-vllm fleet resume ${config_id}".`,
    isStuck: true,
  };
}

/** Returns whether there is no work, and no request has come for so many seconds. */
function isIdle({ pool, market }: Round, { active_at, submitted }: PoolMemory, forSeconds: number): boolean {
  const { waiting = 0, running = 0 } = pool.demand ?? {};
  const askedAt = Math.max(active_at, submitted.at(-1)?.[0] ?? 0);
  return waiting + running === 0 && market.now - askedAt >= forSeconds * 1000;
}

function seconds(of: number): string {
  return of < 120 ? `${of} s` : `${Math.round(of / 60)} min`;
}

function goesFirst({ id }: Launch, why: string): Plan {
  const reason = `It goes before its replacement comes. ${why}`;
  return {
    steps: [{ kind: 'drain', launch_id: id, reason, makes_room: true }],
    text: `${why} One is drained first.`,
  };
}
