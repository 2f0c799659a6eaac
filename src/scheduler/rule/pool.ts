import { capacityOf } from './capacity.ts';
import { remember } from './memory.ts';
import { type Answer, type Asked, isHeard, Round } from './round.ts';
import { startSeconds } from './starts.ts';
import { canShrink, floorOf, targetOf } from './target.ts';

/** The rule for one pool: compares the workers it needs with those it has, and decides what to change. */
export function decidePool(asked: Asked): Answer {
  const { pool, observed, market } = asked;
  const { now } = market;
  const mine = observed.launches.filter(({ config_id }) => config_id === pool.config_id);
  const sessions = [...observed.workers.values()].flatMap(({ session }) =>
    session?.config_id === pool.config_id ? session : [],
  );
  const start = startSeconds(mine);
  const { demand } = pool;
  const ready = mine.filter(({ state }) => state === 'ready');
  const memory = demand ? remember(asked.memory, demand, sessions, ready, now) : asked.memory;
  const capacity = capacityOf(
    mine,
    sessions,
    memory?.away_since ?? {},
    start,
    (launch) => isHeard(observed, launch),
    now,
  );
  const round = new Round(asked, mine, start, capacity);
  if (!demand || !memory) {
    round.text = 'The queue does not say what waits, so everything stays as it is.';
    return round.answer(memory);
  }
  round.endWhatFailed();
  if (pool.removed || asked.budget.isSpent) {
    const why = pool.removed ? 'it is no longer in the spec' : asked.budget.inWords();
    round.shrinkTo(0, why, memory);
    round.endDrained();
    round.text ||= `Nothing is launched: ${why}.`;
    round.wanted = 0;
    return round.answer(memory);
  }
  const target = targetOf(asked, memory, capacity, start);
  round.wanted = target.workers;
  round.inputs = target.inputs;
  const floor = Math.max(target.floor, floorOf(asked, memory, target, capacity, start));
  if (pool.paused) {
    round.text = 'An operator has paused it: nothing is launched and nothing drained.';
  } else {
    const most = pool.spec.max + capacity.others;
    const isWaiting = demand.waiting > 0 && !pool.spec.batch_only;
    // The limit may have been lowered since the recent peak.
    if (round.have > most) round.shrinkTo(most, `${pool.spec.max} at most are to run`, memory);
    else if (target.workers > round.have && target.isPressing) round.growTo(target.workers, target.why);
    // With work waiting none is drained: a worker that is paused by a full cache may take jobs again soon.
    else if (!isWaiting && floor < round.have && canShrink(pool.spec, memory, start, now)) {
      round.shrinkTo(floor, `no more than ${floor} were needed lately`, memory);
    }
  }
  round.endDrained();
  round.text ||= target.why;
  return round.answer(memory);
}
