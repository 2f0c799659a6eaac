import type { Decided, Observed, RuleState } from './observed.ts';

/** Before the first decision, or where what was remembered is lost. */
export const EMPTY_STATE: RuleState = { at: 0, configs: {}, tokens_per_second: {} };

/**
 * Which machines to launch, drain, take back and terminate now. Pure: the same observations, state and time always give
 * the same decisions. To be called every 5 s, every second while a launch is under way; what it decides is to be
 * written, in one commit, before the next call, whose `observed.launches` must show it.
 * @param now epoch ms by the queue's clock
 */
export function decide(observed: Observed, state: RuleState, now: number): Decided {
  const configs = observed.configs.map(({ config_id, demand }) => ({
    config_id,
    wanted: null,
    ready: 0,
    starting: 0,
    draining: 0,
    waiting: demand?.waiting ?? null,
    price_per_hour: 0,
    text: 'Nothing is decided yet.',
    breaker: null,
    machines: [],
  }));
  return { decisions: [], configs, price_per_hour: 0, stopped_by_budget: null, state: { ...state, at: now } };
}
