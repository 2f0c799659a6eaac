import { capacityOf } from './capacity.ts';
import { remember } from './memory.ts';
import { type Answer, type Asked, isHeard, Round } from './round.ts';
import { startSeconds } from './starts.ts';
import { canShrink, kept, wanted } from './wanted.ts';

/** The rule for one config: what it wants, what it has, and what is done about the difference. */
export function decideConfig(asked: Asked): Answer {
  const { config, observed, market } = asked;
  const { now } = market;
  const mine = observed.launches.filter(({ config_id }) => config_id === config.config_id);
  const sessions = observed.sessions.filter(({ config_id }) => config_id === config.config_id);
  const start = startSeconds(mine);
  const { demand } = config;
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
  if (config.removed || asked.budget.isSpent) {
    const why = config.removed ? 'it is no longer in the spec' : asked.budget.inWords();
    round.shrinkTo(0, why, memory);
    round.endDrained();
    round.text ||= `Nothing is launched: ${why}.`;
    round.wanted = 0;
    return round.answer(memory);
  }
  const want = wanted(asked, memory, capacity, start);
  round.wanted = want.workers;
  round.inputs = want.inputs;
  const keep = Math.max(want.keeps, kept(asked, memory, want, capacity, start));
  if (config.paused) {
    round.text = 'An operator has paused it: nothing is launched and nothing drained.';
  } else {
    const most = config.spec.max + capacity.others;
    const isWaiting = demand.waiting > 0 && !config.spec.batch_only;
    // What was needed lately counts within the limit alone, which may have been lowered since.
    if (round.have > most) round.shrinkTo(most, `${config.spec.max} at most are to run`, memory);
    else if (want.workers > round.have && want.isPressing) round.growTo(want.workers, want.why);
    // Workers that take nothing now, their cache being full, may again before any other does.
    else if (!isWaiting && keep < round.have && canShrink(config.spec, memory, start, now)) {
      round.shrinkTo(keep, `no more than ${keep} were needed lately`, memory);
    }
  }
  round.endDrained();
  round.text ||= want.why;
  return round.answer(memory);
}
