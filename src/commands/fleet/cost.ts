import { DRIVERS } from '../../scheduler/drivers.ts';
import type { CandidateSpec, FleetSpec, PoolSpec } from '../../scheduler/spec.ts';

/** The cost of workers, US dollars an hour. */
export interface Cost {
  /** The cost on the cheapest of the machines that a pool may run on; `to` is that on the dearest. */
  from: number;
  to: number;
  /** Whether only the provider knows the price of some of them: they are in neither sum. */
  isPartial: boolean;
}

/** Returns the cost of so many workers of a pool. */
export function costOf(spec: FleetSpec, pool: PoolSpec, workers: number): Cost {
  const prices = pool.machines.map((machine) => priceOf(spec, machine));
  const known = prices.filter((price) => price !== null);
  if (workers === 0 || known.length === 0) return { from: 0, to: 0, isPartial: workers > 0 };
  const isPartial = known.length < prices.length;
  return { from: Math.min(...known) * workers, to: Math.max(...known) * workers, isPartial };
}

/** Returns the cost of all pools together. */
export function totalCost(spec: FleetSpec, workersOf: (pool: PoolSpec) => number): Cost {
  const costs = Object.values(spec.pools).map((pool) => costOf(spec, pool, workersOf(pool)));
  const sum = (of: (cost: Cost) => number) => costs.reduce((total, cost) => total + of(cost), 0);
  const isPartial = costs.some((cost) => cost.isPartial);
  return { from: sum(({ from }) => from), to: sum(({ to }) => to), isPartial };
}

/**
 * Returns the price of a machine, or null where only the provider knows it. A machine of one's own costs nothing
 * unless the file says otherwise.
 */
function priceOf(spec: FleetSpec, { provider, price_per_hour }: CandidateSpec): number | null {
  if (price_per_hour !== undefined) return price_per_hour;
  const driver = spec.providers[provider]?.driver;
  return driver === undefined || DRIVERS[driver].tellsPrices ? null : 0;
}

/** Returns a cost as `2.07`, `2.07–3.00`, `2.07 or more` or `?`. */
export function costText({ from, to, isPartial }: Cost, hours = 1): string {
  const [least, most] = [dollars(from * hours), dollars(to * hours)];
  if (isPartial) return to === 0 ? '?' : `${least} or more`;
  return least === most ? least : `${least}–${most}`;
}

export function dollars(amount: number): string {
  return amount.toFixed(2);
}
