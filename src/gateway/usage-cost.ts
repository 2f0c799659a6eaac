import { USAGE_AMOUNTS, type UsageAmounts, type UsageSum } from '../queue/rpc.ts';
import type { SpentOnDay } from '../scheduler/rpc.ts';

/** What usage cost: the time that it held slots of workers whose price is known. */

const NANO = 1e9;

/** A sum as the API shows it: US dollars of the part whose price is known; null: no part's is. */
export function withCost<Sum extends UsageAmounts>({ nanodollars, ...sum }: Sum) {
  const { slot_ms, unpriced_slot_ms } = sum as UsageAmounts;
  return { ...sum, dollars: slot_ms > unpriced_slot_ms ? nanodollars / NANO : null };
}

/** What several sums have together. */
export function totalOf(sums: readonly UsageAmounts[]): UsageAmounts {
  const total = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, 0])) as UsageAmounts;
  for (const sum of sums) for (const name of USAGE_AMOUNTS) total[name] += sum[name];
  return total;
}

const keyOf = (start: number, configId: string) => `${start} ${configId}`;

/**
 * What launched machines cost beyond what was used of them, by day and pool: their starts, free slots and ends.
 * @param used by everybody, of whole days, by pool
 */
export function idleOf(spent: readonly SpentOnDay[], used: readonly UsageSum[]): SpentOnDay[] {
  const dollars = new Map(
    used.map(({ start, config_id, nanodollars }) => [keyOf(start, config_id ?? ''), nanodollars / NANO]),
  );
  return spent
    .map((one) => ({ ...one, dollars: one.dollars - (dollars.get(keyOf(one.day, one.config_id)) ?? 0) }))
    .filter((one) => one.dollars > 0);
}
