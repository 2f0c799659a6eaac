import { type FailureCause, isFinal, type Launch } from '../launch.ts';
import type { Decision, Observed, ObservedPool, PoolDecided, PoolMemory } from '../rule-types.ts';
import type { Breaker } from './breaker.ts';
import {
  type Capacity,
  inOrderOfVictims,
  isOverdue,
  isStarting,
  isUnanswered,
  type StartSeconds,
} from './capacity.ts';
import { type Budget, candidatesOf, choose, chooseMixed, learnedKey, type Market } from './market.ts';
import { type Launchable, launchable, mainBreaker, type Rollout } from './rollout.ts';
import { baseOf, isStaying, type SpotRule, type Swaps, spotVictims } from './spot.ts';

export interface Asked {
  pool: ObservedPool;
  observed: Observed;
  market: Market;
  /** The remaining budget, which each decided launch reduces. */
  budget: Budget;
  memory: PoolMemory | undefined;
}

export interface Answer {
  decisions: Decision[];
  summary: PoolDecided;
  memory: PoolMemory | undefined;
}

/** One pool in one reconciliation: the question, and the facts that answer it. */
export interface Round extends Asked {
  /** The pool's launches. */
  mine: Launch[];
  start: StartSeconds;
  capacity: Capacity;
  rollout: Rollout;
  /** The pool's rule for spot machines; null: it has none. */
  spot: SpotRule | null;
  swaps: Swaps;
  /** The number of workers that take jobs or are starting, without those that are launched beside others. */
  have: number;
  /** Returns whether a launch's worker is ready, connected and not on its way out. */
  takesJobs(launch: Launch): boolean;
}

type WithoutInputs<D> = D extends unknown ? Omit<D, 'inputs'> : never;
/** A decision without its numbers, which the whole round shares. */
export type Step = WithoutInputs<Decision>;

export interface Plan {
  steps: Step[];
  /** A text about what the rule does, or why it does nothing; empty where there is nothing to report. */
  text: string;
  /** Whether nothing is launched for lack of room, money or machines, which the end of a worker may free. */
  isFull?: boolean;
}

/** Terminates starts that are overdue, and workers that are lost. */
export function endFailed({ mine, observed, market, start, capacity }: Round): Step[] {
  const isLate = (launch: Launch) => {
    const progressedAt = observed.machines.get(launch.name)?.progress?.at ?? null;
    return isOverdue(launch, start, progressedAt, market.now);
  };
  const late = mine.filter((launch) => isHeard(observed, launch) && isLate(launch));
  const lost = capacity.lost.filter((launch) => isHeard(observed, launch));
  return [
    ...late.map((launch) => end(launch, 'start_deadline', 'It was not ready within its start deadline.')),
    ...lost.map((launch) => end(launch, 'lost', 'Its worker has not been connected for 10 min.')),
  ];
}

/** Terminates drained workers that run nothing any more. @param steps the steps decided before */
export function endDrained({ mine, observed }: Round, steps: readonly Step[]): Step[] {
  const decided = launchesOf(steps);
  return mine
    .filter(
      ({ id, name, state }) => state === 'draining' && !decided.has(id) && observed.cordoned[name] === 0,
    )
    .map((launch) => end(launch, null, 'It is drained: it runs nothing any more.'));
}

/** Takes draining workers back, then launches those that are still missing. */
export function growTo(round: Round, target: number, why: string): Plan {
  const { pool, observed, mine, capacity, have, rollout } = round;
  const takenBack = capacity.draining
    .filter(({ id }) => !observed.dismissed.includes(id))
    .slice(0, Math.max(0, target - have));
  const missing = target - have - takenBack.length;
  const alive = mine.filter((launch) => !isFinal(launch)).length;
  // While no worker is ready and a start has failed, one probe at a time shows as much as many would.
  const isProbe = mainBreaker(rollout).failures > 0 && capacity.ready.length === 0;
  const most = isProbe ? 1 - capacity.starting.length : Math.max(2, have);
  const replaces = rollout.owed.map(({ id }) => id);
  const launched = launches(round, Math.min(missing, pool.spec.max - alive, most), { reason: why, replaces });
  const count = launched.steps.length;
  // Unless the late launches are ended, both machines would start.
  const replaced = capacity.late.filter(isUnanswered).slice(0, count);
  const reason = 'Nobody has answered its order, and another was launched in its place.';
  const steps: Step[] = [
    ...takenBack.map(({ id }): Step => ({ kind: 'take_back', launch_id: id, reason: why })),
    ...launched.steps,
    ...replaced.map((launch) => end(launch, null, reason)),
  ];
  const ending = mine.filter(({ state }) => state === 'terminating').length;
  if (count > 0) return { steps, text: `${why} ${plural(count, 'worker')} launched.` };
  if (takenBack.length > 0) return { steps, text: `${why} ${takenBack.length} taken back.` };
  if (missing === 0 || pool.spec.max > alive || ending === 0)
    return { steps, text: launched.text === '' ? '' : `${why} ${launched.text}` };
  const places = `once ${plural(ending, 'worker')} that ${ending === 1 ? 'ends is' : 'end are'} gone`;
  return { steps, text: `${why} Places are free ${places}.` };
}

/** Gives up surplus workers. @param steps the steps decided before */
export function shrinkTo(
  round: Round,
  target: number,
  why: string,
  memory: PoolMemory,
  steps: readonly Step[],
): Plan {
  const { observed, capacity, have, mine, spot } = round;
  const { ready, starting, late } = capacity;
  const decided = launchesOf(steps);
  const isFree = (launch: Launch) => isHeard(observed, launch) && !decided.has(launch.id);
  // A spot machine serves in the place of a worker of the base until that one is ready.
  const coming = spot ? baseOf(mine, { ...spot, base: Math.min(spot.base, target) }).filter(isStarting) : [];
  const mayEnd = (launch: Launch) => isFree(launch) && !coming.includes(launch);
  const victims = victimsIn(round, memory, [...starting, ...ready].filter(mayEnd));
  const surplus = victims.slice(0, Math.max(0, have - target - coming.length));
  const reason = `It is not needed: ${why}.`;
  return {
    steps: [...surplus, ...late.filter(isFree)].map((launch) =>
      isStarting(launch) ? end(launch, null, reason) : { kind: 'drain', launch_id: launch.id, reason },
    ),
    text: surplus.length > 0 ? `${plural(surplus.length, 'worker')} given up: ${why}.` : '',
  };
}

/** Returns those of these launches that may be ended, in the order in which they are to end. */
export function victimsIn(
  { observed, market, mine, rollout, spot }: Round,
  memory: PoolMemory,
  among: Launch[],
): Launch[] {
  const costOf = (launch: Launch) => {
    const speed = market.tokensPerSecond[learnedKey(launch.config_id, launch)];
    return speed ? launch.price_per_hour / speed : launch.price_per_hour;
  };
  const rankOf = (launch: Launch) => {
    if (!rollout.old.includes(launch)) return 2;
    // Of the old ones those go first in whose place none starts.
    return rollout.beside.some(({ replaces }) => replaces === launch.id) ? 1 : 0;
  };
  const heard = among.filter((launch) => isHeard(observed, launch));
  const victims = inOrderOfVictims(heard, observed, { idleSince: memory.idle_since, costOf, rankOf });
  return spot ? spotVictims(victims, mine, spot) : victims;
}

interface Wanted {
  /** The reason for each launch. */
  reason: string;
  /** The launches in whose places the new ones come, in order. */
  replaces: readonly string[];
  /** The version; left out: what `launchable` says. */
  only?: Launchable;
  /** Whether they are launched beside workers that serve: if the budget forbids that, the pool lacks nothing. */
  isBeside?: boolean;
}

/** Plans `count` launches, or as many of them as are allowed; the text says why there are no more. */
export function launches(
  round: Round,
  count: number,
  { reason, replaces, only, isBeside = false }: Wanted,
): Plan {
  const { config_id } = round.pool;
  const steps: Step[] = [];
  const { needless, replaced } = round.rollout;
  const ended = [...needless, ...replaced, ...round.swaps.replaced].map(({ id }) => id);
  const ends = new Set([...ended, ...launchesOf(endFailed(round)), ...replaces.slice(0, count)]);
  const staying: Staying[] = round.mine.filter((launch) => isStaying(launch) && !ends.has(launch.id));
  let stopped: Omit<Plan, 'steps'> = { text: '' };
  for (const { version, most, breaker } of only ? [only] : launchable(round.rollout, round.have)) {
    for (let left = most; left > 0 && steps.length < count; left -= 1) {
      const found = chosen(round, { version, breaker }, staying, isBeside);
      if ('text' in found) {
        stopped = found;
        break;
      }
      const place = replaces[steps.length] ?? null;
      steps.push({ kind: 'launch', config_id, version, ...found, replaces: place, reason });
      const { provider, spot = false } = found.machine;
      staying.push({ provider, is_spot: spot });
    }
    if (steps.length >= count) return { steps, text: '' };
  }
  return { steps, ...stopped };
}

interface Staying {
  provider: string;
  is_spot: boolean;
}

type Chosen = Pick<Extract<Decision, { kind: 'launch' }>, 'machine' | 'price_per_hour' | 'is_stand_in'>;

/**
 * Takes a machine for one launch off the market and the budget, or says why there is none.
 * @param staying the workers that the pool keeps
 * @param isBeside whether it is launched beside a worker that serves
 */
function chosen(
  { pool, market, budget, spot }: Round,
  { version, breaker }: Pick<Launchable, 'version' | 'breaker'>,
  staying: readonly Staying[],
  isBeside: boolean,
): Chosen | Omit<Plan, 'steps'> {
  const held = heldBackInWords(breaker, market.now);
  if (held !== null) return { text: held };
  const candidates = candidatesOf(pool, market, version);
  const choice = spot ? chooseMixed(candidates, spot, staying, market.now) : choose(candidates, market.now);
  if (choice.kind === 'none') {
    const next = choice.until === null ? '' : `, asked again in ${secondsTo(choice.until, market.now)}`;
    const isFull = candidates.some((one) => one.isFull || one.isSoldOut);
    return { text: `None can be launched: ${choice.why}${next}.`, isFull };
  }
  const { machine, learned } = choice.candidate;
  const { price_per_hour } = learned;
  const limit = budget.take(price_per_hour);
  if (limit !== null) {
    if (!isBeside) budget.stoppedBy = limit;
    return { text: `None can be launched: ${budget.inWords(limit)}.`, isFull: true };
  }
  market.taken.set(machine.provider, (market.taken.get(machine.provider) ?? 0) + 1);
  return { machine, price_per_hour, is_stand_in: choice.is_stand_in };
}

/** Says why failed starts hold the next one back, or returns null: they do not. */
export function heldBackInWords(breaker: Breaker, now: number): string | null {
  if (breaker.kind === 'closed') return null;
  return breaker.kind === 'open'
    ? `Launching is stopped until it is resumed: ${breaker.why}.`
    : `The next start is tried in ${secondsTo(breaker.until, now)}: ${breaker.why}.`;
}

function secondsTo(until: number, now: number): string {
  return `${Math.max(1, Math.round((until - now) / 1000))} s`;
}

export function end({ id }: Launch, cause: FailureCause | null, reason: string): Step {
  return { kind: 'terminate', launch_id: id, cause, reason };
}

function launchesOf(steps: readonly Step[]): Set<string> {
  return new Set(steps.flatMap((step) => ('launch_id' in step ? step.launch_id : [])));
}

/** Returns whether the launch's provider has a fresh list; without one the provider's machines are left alone. */
export function isHeard({ providers }: Observed, { provider }: Launch): boolean {
  return providers.find(({ name }) => name === provider)?.is_fresh ?? false;
}

/** Returns a count with its noun: `1 worker`, `2 workers`. */
export function plural(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}

/** Returns a time such as `14:03 UTC`, with the day if that is not today. */
export function timeOfDay(at: number, now: number): string {
  const [day, time] = new Date(at).toISOString().split('T') as [string, string];
  const today = new Date(now).toISOString().split('T')[0];
  return `${day === today ? '' : `${day} `}${time.slice(0, 5)} UTC`;
}
