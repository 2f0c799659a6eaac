import { isFinal } from './launch.ts';
import { Budget, learnedKey, type Market } from './rule/market.ts';
import { decidePool } from './rule/pool.ts';
import type { Decided, Observed, PoolDecided, RuleState } from './rule-types.ts';

/** The rule's state before the first decision, or after the stored one was lost. */
export const EMPTY_STATE: RuleState = { pools: {}, tokens_per_second: {} };

/**
 * Decides which machines to launch, drain, take back and terminate now. This function is pure: the same observations,
 * state and time always give the same decisions. The caller runs it every 5 s, and every second while a launch is under
 * way, and writes its decisions in one commit before the next call, whose `observed.launches` must show them.
 * docs/scheduling.md describes the rule, and the measurements behind it.
 * @param now epoch ms by the queue's clock
 */
export function decide(observed: Observed, state: RuleState, now: number): Decided {
  const budget = new Budget(observed.budget, observed.spent_today, observed.launches, now);
  const market: Market = {
    providers: observed.providers,
    launches: observed.launches,
    tokensPerSecond: learnSpeeds(state.tokens_per_second, observed),
    taken: countByProvider(observed),
    hasBudget: observed.budget.per_hour !== undefined || observed.budget.per_day !== undefined,
    now,
  };
  const decided: Decided = {
    decisions: [],
    pools: [],
    price_per_hour: 0,
    stopped_by_budget: null,
    state: { pools: {}, tokens_per_second: market.tokensPerSecond },
  };
  const byId = new Map<string, PoolDecided>();
  for (const pool of inOrderOfNeed(observed)) {
    const memory = state.pools[pool.config_id];
    const { decisions, summary, memory: next } = decidePool({ pool, observed, market, budget, memory });
    decided.decisions.push(...decisions);
    byId.set(pool.config_id, summary);
    if (next) decided.state.pools[pool.config_id] = next;
  }
  decided.pools = observed.pools.flatMap(({ config_id }) => byId.get(config_id) ?? []);
  decided.price_per_hour = budget.perHour;
  decided.stopped_by_budget = budget.stoppedBy;
  return decided;
}

/** Sorts the pools: those without any worker come first, in case the budget does not pay for all. */
function inOrderOfNeed({ pools, launches }: Observed): Observed['pools'] {
  const served = new Set(launches.filter((launch) => !isFinal(launch)).map(({ config_id }) => config_id));
  return [...pools].sort(
    (one, other) => Number(served.has(one.config_id)) - Number(served.has(other.config_id)),
  );
}

function countByProvider({ launches }: Observed): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { provider } of launches.filter((launch) => !isFinal(launch)))
    counts.set(provider, (counts.get(provider) ?? 0) + 1);
  return counts;
}

/** The weight of one reconciliation in the average, which spans some minutes of load. */
const WEIGHT = 0.05;

/**
 * Returns the tokens a second of one worker by pool and instance type, measured at workers whose slots are at least
 * half busy.
 */
function learnSpeeds(
  before: Record<string, number>,
  { machines, launches }: Observed,
): Record<string, number> {
  const speeds = { ...before };
  for (const launch of launches) {
    const { session, heartbeat } = machines.get(launch.name) ?? {};
    const tokens_per_second = heartbeat?.tokens_per_second;
    if (!session || !tokens_per_second || session.running < session.capacity / 2) continue;
    const key = learnedKey(launch.config_id, launch);
    const known = speeds[key] ?? tokens_per_second;
    speeds[key] = Math.round((known + WEIGHT * (tokens_per_second - known)) * 100) / 100;
  }
  return speeds;
}
