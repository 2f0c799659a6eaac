import { NANODOLLARS } from '../protocol/index.ts';
import { USAGE_AMOUNTS, type UsageAmounts, type UsageSum } from '../queue/rpc.ts';
import type { SpentOnDay } from '../scheduler/rpc.ts';

/** Usage costs the time that it held slots of workers whose price is known. */

/**
 * Returns a sum in the API's form: the cost in US dollars of the part whose price is known; null if no part's price is.
 */
export function withCost<Sum extends UsageAmounts>({ nanodollars, ...sum }: Sum) {
  const { slot_ms, unpriced_slot_ms } = sum as UsageAmounts;
  return { ...sum, dollars: slot_ms > unpriced_slot_ms ? nanodollars / NANODOLLARS : null };
}

/** Returns the total of several sums. */
export function totalOf(sums: readonly UsageAmounts[]): UsageAmounts {
  const total = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, 0])) as UsageAmounts;
  for (const sum of sums) for (const name of USAGE_AMOUNTS) total[name] += sum[name];
  return total;
}

const keyOf = (start: number, configId: string) => `${start} ${configId}`;

/**
 * Returns what launched machines cost beyond what jobs used of them, by day and pool: their starts, free slots and
 * ends.
 * @param used everybody's usage of whole days, by pool
 */
export function idleOf(spent: readonly SpentOnDay[], used: readonly UsageSum[]): SpentOnDay[] {
  const dollars = new Map(
    used.map(({ start, config_id, nanodollars }) => [
      keyOf(start, config_id ?? ''),
      nanodollars / NANODOLLARS,
    ]),
  );
  return spent
    .map((one) => ({ ...one, dollars: one.dollars - (dollars.get(keyOf(one.day, one.config_id)) ?? 0) }))
    .filter((one) => one.dollars > 0);
}
