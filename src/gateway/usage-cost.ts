import { USAGE_AMOUNTS, USAGE_KEYS, type UsageAmounts, type UsageKey, type UsageSum } from '../queue/rpc.ts';
import type { SpentOnDay } from '../scheduler/rpc.ts';

/**
 * What usage cost: what the machines of a pool cost on a day, divided among those who used it then, by their tokens. A
 * token of the prompt counts 1 and a generated one 2, as in fair share.
 */

/** US dollars of a sum. */
export interface Cost {
  /** Of the part whose price is known; null: of nothing. */
  dollars: number | null;
  /** Input and output of the rest: no price of its pool is known for its day. */
  unpriced_tokens: number;
}

const DAY = 24 * 3600;
const OUTPUT_WEIGHT = 2;

const weighted = ({ input, output }: Pick<UsageAmounts, 'input' | 'output'>) =>
  input + OUTPUT_WEIGHT * output;
const keyOf = (start: number, configId: string) => `${start - (start % DAY)} ${configId}`;

/** Prices of a token, by day and pool. */
export class Prices {
  readonly #prices = new Map<string, number>();
  /** Pools that cost something on a day on which nobody had a token of them. */
  readonly idle: SpentOnDay[];

  /** @param all what everybody used, of whole days, by pool */
  constructor(spent: readonly SpentOnDay[], all: readonly UsageSum[]) {
    const tokens = new Map(all.map((sum) => [keyOf(sum.start, sum.config_id ?? ''), weighted(sum)]));
    const used = ({ day, config_id }: SpentOnDay) => tokens.get(keyOf(day, config_id)) ?? 0;
    for (const one of spent) {
      if (used(one) > 0) this.#prices.set(keyOf(one.day, one.config_id), one.dollars / used(one));
    }
    this.idle = spent.filter((one) => used(one) === 0);
  }

  /** @param sum of one pool */
  of(sum: UsageSum): Cost {
    const price = this.#prices.get(keyOf(sum.start, sum.config_id ?? ''));
    if (price !== undefined) return { dollars: price * weighted(sum), unpriced_tokens: 0 };
    return { dollars: null, unpriced_tokens: sum.input + sum.output };
  }
}

/** What several sums have together. */
export function totalOf(sums: readonly UsageAmounts[]): UsageAmounts {
  const total = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, 0])) as UsageAmounts;
  for (const sum of sums) for (const name of USAGE_AMOUNTS) total[name] += sum[name];
  return total;
}

/** The same with what they cost together. */
export function totalWithCost(sums: readonly (UsageAmounts & Cost)[]): UsageAmounts & Cost {
  const cost: Cost = { dollars: null, unpriced_tokens: 0 };
  for (const { dollars, unpriced_tokens } of sums) {
    if (dollars !== null) cost.dollars = (cost.dollars ?? 0) + dollars;
    cost.unpriced_tokens += unpriced_tokens;
  }
  return { ...totalOf(sums), ...cost };
}

/** Sums by pool put together to those that were asked for, with what they cost. In the order that they come in. */
export function withCost(sums: readonly UsageSum[], prices: Prices, groupBy: readonly (keyof UsageKey)[]) {
  const priced = sums.map((sum) => ({ ...sum, ...prices.of(sum) }));
  const groups = Map.groupBy(priced, (sum) => JSON.stringify([sum.start, ...groupBy.map((key) => sum[key])]));
  return [...groups.values()].map((group) => {
    const [first] = group;
    const keys = USAGE_KEYS.filter((key) => groupBy.includes(key)).map((key) => [key, first![key]]);
    return {
      start: first!.start,
      ...(Object.fromEntries(keys) as Partial<UsageKey>),
      ...totalWithCost(group),
    };
  });
}
