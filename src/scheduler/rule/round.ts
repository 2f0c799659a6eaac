import { type FailureCause, isFinal, type Launch } from '../launch.ts';
import type { Decision, Observed, ObservedPool, PoolDecided, PoolMemory } from '../rule-types.ts';
import type { Breaker } from './breaker.ts';
import type { Budget } from './budget.ts';
import { candidatesOf, choose, learnedKey, type Market } from './candidates.ts';
import type { Capacity } from './capacity.ts';
import type { Exchange } from './outdated.ts';
import { isOverdue, isStarting, isUnanswered, type StartSeconds } from './starts.ts';
import { inOrderOfVictims } from './victims.ts';
import { plural } from './words.ts';

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

/** One pool in one reconciliation: the question, and what it shows. */
export interface Round extends Asked {
  /** The pool's launches. */
  mine: Launch[];
  start: StartSeconds;
  capacity: Capacity;
  exchange: Exchange;
  /** The number of workers that take jobs or are starting. */
  have: number;
  breaker: Breaker;
}

type WithoutInputs<D> = D extends unknown ? Omit<D, 'inputs'> : never;
/** A decision without its numbers, which are those of the whole round. */
export type Step = WithoutInputs<Decision>;

export interface Plan {
  steps: Step[];
  /** What the rule does, or why it does nothing; empty where there is nothing to report. */
  text: string;
  /** Whether nothing is launched for want of a place or of money, which the end of a worker would free. */
  isFull?: boolean;
  /** The reason why a worker with the settings from before a change stays until an operator acts. */
  stuck?: string;
}

/** Terminates starts that are overdue, and workers that are lost. */
export function endFailed({ mine, observed, market, start, capacity }: Round): Step[] {
  const isLate = (launch: Launch) => {
    const progressedAt = observed.workers.get(launch.name)?.heartbeat?.progressed_at ?? null;
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
  const { pool, observed, mine, capacity, have, breaker } = round;
  const takenBack = capacity.draining
    .filter(({ id }) => !observed.dismissed.includes(id))
    .slice(0, Math.max(0, target - have));
  const missing = target - have - takenBack.length;
  const alive = mine.filter((launch) => !isFinal(launch)).length;
  // Where no worker is ready and a start has failed, one probe at a time shows as much as many.
  const isProbe = breaker.failures > 0 && capacity.ready.length === 0;
  const most = isProbe ? 1 - capacity.starting.length : Math.max(2, have);
  const launched = launches(round, Math.min(missing, pool.spec.max - alive, most), why);
  const count = launched.steps.length;
  // Without this, both machines would start.
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
  if (missing === 0 || pool.spec.max > alive || ending === 0) return { steps, text: launched.text };
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
  const { observed, capacity, have } = round;
  const { ready, starting, late } = capacity;
  const decided = launchesOf(steps);
  const isFree = (launch: Launch) => isHeard(observed, launch) && !decided.has(launch.id);
  const victims = victimsIn(round, memory, [...starting, ...ready].filter(isFree));
  const surplus = victims.slice(0, Math.max(0, have - target));
  const reason = `It is not needed: ${why}.`;
  return {
    steps: [...surplus, ...late.filter(isFree)].map((launch) =>
      isStarting(launch) ? end(launch, null, reason) : { kind: 'drain', launch_id: launch.id, reason },
    ),
    text: surplus.length > 0 ? `${plural(surplus.length, 'worker')} given up: ${why}.` : '',
  };
}

/** Returns those of these launches that may be ended, in the order in which they are. */
export function victimsIn({ observed, market }: Round, memory: PoolMemory, among: Launch[]): Launch[] {
  const costOf = (launch: Launch) => {
    const speed = market.tokensPerSecond[learnedKey(launch.config_id, launch)];
    return speed ? launch.price_per_hour / speed : launch.price_per_hour;
  };
  const heard = among.filter((launch) => isHeard(observed, launch));
  return inOrderOfVictims(heard, observed, memory.idle_since, costOf);
}

/**
 * Plans `count` launches, or as many of them as are allowed; the text says why there are no more.
 * @param replaces the launch that the new one replaces
 */
export function launches(
  { pool, market, budget, breaker }: Round,
  count: number,
  why: string,
  replaces: string | null = null,
): Plan {
  const steps: Step[] = [];
  const seconds = (until: number) => `${Math.max(1, Math.round((until - market.now) / 1000))} s`;
  const stopped = (because: string): Plan => ({ steps, text: `${why} ${because}.` });
  while (steps.length < count) {
    if (breaker.kind === 'open') return stopped(`Launching is stopped until it is resumed: ${breaker.why}`);
    if (breaker.kind === 'waiting') {
      return stopped(`The next start is tried in ${seconds(breaker.until)}: ${breaker.why}`);
    }
    const candidates = candidatesOf(pool, market);
    const choice = choose(candidates, market.now);
    if (choice.kind === 'none') {
      const next = choice.until === null ? '' : `, asked again in ${seconds(choice.until)}`;
      const isFull = candidates.some((one) => one.isFull);
      return { ...stopped(`None can be launched: ${choice.why}${next}`), isFull };
    }
    const { machine, learned } = choice.candidate;
    const { price_per_hour } = learned;
    if (!budget.take(price_per_hour)) {
      return { ...stopped(`None can be launched: ${budget.inWords()}`), isFull: true };
    }
    market.taken.set(machine.provider, (market.taken.get(machine.provider) ?? 0) + 1);
    const { config_id } = pool;
    steps.push({ kind: 'launch', config_id, machine, price_per_hour, replaces, reason: why });
  }
  return { steps, text: '' };
}

function end({ id }: Launch, cause: FailureCause | null, reason: string): Step {
  return { kind: 'terminate', launch_id: id, cause, reason };
}

function launchesOf(steps: readonly Step[]): Set<string> {
  return new Set(steps.flatMap((step) => ('launch_id' in step ? step.launch_id : [])));
}

/** Returns whether the launch's provider has a fresh list; without one its machines are left alone. */
export function isHeard({ providers }: Observed, { provider }: Launch): boolean {
  return providers.find(({ name }) => name === provider)?.is_fresh ?? false;
}
