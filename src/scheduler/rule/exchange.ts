import { isFinal } from '../launch.ts';
import type { PoolMemory } from '../rule-types.ts';
import { launches, type Plan, type Round, type Step, victimsIn } from './round.ts';
import { plural } from './words.ts';

/** Drains workers whose replacements take jobs. */
export function endReplaced({ exchange }: Round): Step[] {
  const reason = 'It has the settings from before the change of its pool, and its replacement takes jobs.';
  return exchange.replaced.map(({ id }) => ({ kind: 'drain', launch_id: id, reason }));
}

/**
 * Launches a replacement where none is on its way and there is room for one. Where there is no room, and more than one
 * worker serves, one is drained first. A replacement that fails counts as any start: the breaker stops the next.
 * @param steps the steps decided before
 */
export function goOnExchanging(round: Round, memory: PoolMemory, steps: readonly Step[]): Plan {
  const { pool, mine, capacity, exchange } = round;
  const { outdated, replacing } = exchange;
  if (outdated.length === 0) return { steps: [], text: '' };
  const alive = mine.filter((launch) => !isFinal(launch)).length;
  const { max } = pool.spec;
  const isSurplus = alive > max && replacing.length > 0;
  if (isSurplus) {
    const reason = `${max} at most are to run.`;
    return {
      steps: replacing.map(({ id }) => ({ kind: 'terminate', launch_id: id, cause: null, reason })),
      text: '',
    };
  }
  const has = outdated.length === 1 ? 'has' : 'have';
  const left = `${outdated.length} of ${plural(capacity.ready.length, 'worker')} ${has} the settings from before the change.`;
  if (replacing.length > 0) return { steps: [], text: `${left} Another one starts in the place of one.` };
  const isMoving = steps.length > 0 || capacity.starting.length > 0 || capacity.late.length > 0;
  const [next] = victimsIn(round, memory, outdated);
  if (isMoving || !next) return { steps: [], text: left };
  const isEnding = mine.some(({ state }) => state === 'draining' || state === 'terminating');
  if (alive >= max && isEnding) {
    return { steps: [], text: `${left} Another one starts once a worker that ends is gone.` };
  }
  const full = `max is ${max}, which leaves no room for a new one beside ${outdated.length === 1 ? 'it' : 'them'}`;
  const launched = alive < max ? launches(round, 1, left, next.id) : { steps: [], text: full, isFull: true };
  if (launched.steps.length > 0) {
    return { steps: launched.steps, text: `${left} Another one is launched in the place of one.` };
  }
  if (!launched.isFull) return launched;
  const because = alive < max ? launched.text : `${left} But ${full}.`;
  if (capacity.ready.length > 1) {
    const reason = `It goes before its replacement comes. ${because}`;
    return {
      steps: [{ kind: 'drain', launch_id: next.id, reason }],
      text: `${because} One is drained first.`,
    };
  }
  const { config_id } = pool;
  return {
    steps: [],
    text: `${because} It is the only one that serves, so it stays: make room, or replace it with a pause by "worker-vllm fleet drain ${config_id}" and "worker-vllm fleet resume ${config_id}".`,
    stuck: because,
  };
}
