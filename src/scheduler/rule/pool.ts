import { isFinal, type Launch } from '../launch.ts';
import type { PoolDecided, PoolMemory } from '../rule-types.ts';
import { capacityOf, capacityWithout, startSeconds } from './capacity.ts';
import { judge } from './judge.ts';
import { candidatesOf } from './market.ts';
import { remember } from './memory.ts';
import { endReplaced, replaceOld } from './replace.ts';
import { capacityBeside, mainBreaker, mainVersion, noRollout, rolloutOf } from './rollout.ts';
import {
  type Answer,
  type Asked,
  endDrained,
  endFailed,
  growTo,
  isHeard,
  type Plan,
  type Round,
  type Step,
  shrinkTo,
} from './round.ts';
import { NO_SWAPS, spotRuleOf, swapsOf } from './spot.ts';
import { endSwapped, goOnSwapping } from './swap.ts';
import { canShrink, floorOf, type Target, targetOf } from './target.ts';

/** Decides for one pool: compares the workers that it needs with those that it has. */
export function decidePool(asked: Asked): Answer {
  const { pool, observed, market, budget } = asked;
  const mine = observed.launches.filter(({ config_id }) => config_id === pool.config_id);
  const sessions = [...observed.machines.values()].flatMap(({ session }) =>
    session?.config_id === pool.config_id ? session : [],
  );
  const start = startSeconds(mine);
  const { demand } = pool;
  const up = mine.filter(({ state }) => state === 'ready');
  const memory = demand ? remember(asked.memory, demand, sessions, up, market.now) : asked.memory;
  const isTold = (launch: (typeof mine)[number]) => isHeard(observed, launch);
  const awaySince = memory?.away_since ?? {};
  const all = capacityOf(mine, sessions, awaySince, start, isTold, market.now);
  const isOver = pool.removed || budget.isSpent;
  const takesJobs = ({ state, name }: Launch) => {
    const session = observed.machines.get(name)?.session;
    return state === 'ready' && session != null && session.state !== 'draining' && session.capacity > 0;
  };
  const of = { pool, mine, capacity: all, takesJobs, isHeard: isTold, now: market.now };
  // A pool that is ended, or stays as it is, replaces no workers.
  const rollout = isOver || pool.paused || !demand ? noRollout(of) : rolloutOf(of);
  const spot = spotRuleOf(pool.spec);
  const swaps =
    isOver || pool.paused || !demand || !spot ? NO_SWAPS : swapsOf(mine, spot, takesJobs, market.now);
  const capacity = capacityWithout([...swaps.beside, ...swaps.replaced], capacityBeside(rollout, all));
  const have = capacity.ready.length + capacity.starting.length + capacity.others;
  const breaker = mainBreaker(rollout);
  const round: Round = { ...asked, mine, start, capacity, rollout, have, takesJobs, spot, swaps };
  // The machines' costs, and why they are skipped, as they are before anything is decided.
  const machines = candidatesOf(pool, market, mainVersion(rollout)).map(({ learned }) => learned);
  const answer = (
    wanted: number | null,
    text: string,
    steps: Step[],
    { inputs, batch_wait }: Pick<Target, 'inputs' | 'batch_wait'>,
    rolling: PoolDecided['rollout'] = null,
  ): Answer => ({
    decisions: steps.map((step) => ({ ...step, inputs })),
    summary: {
      config_id: pool.config_id,
      wanted,
      ready:
        capacity.ready.length +
        swaps.beside.filter(({ state }) => state === 'ready').length +
        capacity.others,
      starting: all.starting.length + all.late.length + steps.filter(({ kind }) => kind === 'launch').length,
      draining: capacity.draining.length,
      waiting: demand?.waiting ?? null,
      batch_wait,
      price_per_hour: mine
        .filter((launch) => !isFinal(launch))
        .reduce((sum, { price_per_hour }) => sum + price_per_hour, 0),
      text,
      breaker: breaker.kind === 'open' ? breaker.why : null,
      rollout: rolling,
      machines,
    },
    memory,
  });
  if (!demand || !memory) {
    const text = 'The queue does not say what waits, so everything stays as it is.';
    return answer(null, text, [], { inputs: '', batch_wait: null });
  }
  const target = targetOf(asked, memory, capacity, start);
  const failed = [...endFailed(round), ...endReplaced(round), ...endSwapped(round)];
  const judged = judge(mine, rollout, takesJobs, market.now);
  const verdict: Step[] = judged ? [{ ...judged, config_id: pool.config_id }] : [];
  if (judged?.kind === 'stop') {
    const text = `Version ${judged.version} is stopped: ${judged.reason} It goes back to ${judged.back_to}.`;
    return answer(target.wanted, text, [...failed, ...verdict], target);
  }
  const why = pool.removed ? 'it is no longer in the spec' : isOver ? budget.inWords(budget.stoppedBy) : '';
  const floor = Math.max(target.floor, floorOf(round, memory, target, capacity, start));
  const plan = isOver
    ? shrinkTo(round, 0, why, memory, failed)
    : planFor(round, target, floor, memory, failed);
  const isWindow = canShrink(pool.spec, memory, start, market.now);
  const keep = Math.max(target.workers, isWindow ? floor : have + rollout.owed.length);
  const replaced = replaceOld(round, Math.min(keep, pool.spec.max), memory, [...failed, ...plan.steps]);
  const decided = [...failed, ...verdict, ...plan.steps, ...replaced.steps];
  const swapped: Plan =
    isOver || pool.paused ? { steps: [], text: '' } : goOnSwapping(round, memory, target, decided);
  const steps = [...decided, ...swapped.steps];
  const otherwise = isOver ? `Nothing is launched: ${why}.` : target.why;
  const rolled = replaced.rollout?.text ?? '';
  const texts = replaced.steps.length > 0 ? [rolled, plan.text] : [plan.text, rolled, swapped.text];
  return answer(
    isOver ? 0 : target.wanted,
    texts.find((text) => text !== '') ?? otherwise,
    [...steps, ...endDrained(round, steps)],
    target,
    replaced.rollout,
  );
}

/**
 * Plans growth to the target at once, or shrinking to what was needed recently. @param failed the steps decided before
 */
function planFor(
  round: Round,
  target: Target,
  floor: number,
  memory: PoolMemory,
  failed: readonly Step[],
): Plan {
  const { pool, start, capacity, have, market } = round;
  const { spec, demand } = pool;
  if (pool.paused) {
    return { steps: [], text: 'An operator has paused it: nothing is launched and nothing drained.' };
  }
  const most = spec.max + capacity.others;
  const isWaiting = demand !== null && demand.waiting > 0 && !spec.batch_only;
  // The limit may have been lowered since the recent peak.
  if (have > most) return shrinkTo(round, most, `${spec.max} at most are to run`, memory, failed);
  if (target.workers > have && target.isPressing) return growTo(round, target.workers, target.why);
  // While jobs wait no worker is drained: one that is paused by a full cache may take jobs again soon.
  if (!isWaiting && floor < have && canShrink(spec, memory, start, market.now)) {
    return shrinkTo(round, floor, `no more than ${floor} were needed lately`, memory, failed);
  }
  return { steps: [], text: '' };
}
