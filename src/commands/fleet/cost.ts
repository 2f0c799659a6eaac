import { DRIVERS } from '../../scheduler/drivers.ts';
import type { CandidateSpec, FleetSpec, PoolSpec } from '../../scheduler/spec.ts';

/** What workers cost, US dollars an hour. */
export interface Cost {
  /** On the cheapest of the machines that a pool may run on, and on the dearest. */
  from: number;
  to: number;
  /** The price of some of them only the provider knows: they are in neither. */
  isPartial: boolean;
}

/** Of so many workers of a pool. */
export function costOf(spec: FleetSpec, pool: PoolSpec, workers: number): Cost {
  const prices = pool.machines.map((machine) => priceOf(spec, machine));
  const known = prices.filter((price) => price !== null);
  if (workers === 0 || known.length === 0) return { from: 0, to: 0, isPartial: workers > 0 };
  const isPartial = known.length < prices.length;
  return { from: Math.min(...known) * workers, to: Math.max(...known) * workers, isPartial };
}

/** Of all pools together. */
export function totalCost(spec: FleetSpec, workersOf: (pool: PoolSpec) => number): Cost {
  const costs = Object.values(spec.pools).map((pool) => costOf(spec, pool, workersOf(pool)));
  const sum = (of: (cost: Cost) => number) => costs.reduce((total, cost) => total + of(cost), 0);
  const isPartial = costs.some((cost) => cost.isPartial);
  return { from: sum(({ from }) => from), to: sum(({ to }) => to), isPartial };
}

/** Null: only the provider knows. A machine of one's own costs nothing unless the file says otherwise. */
function priceOf(spec: FleetSpec, { provider, price_per_hour }: CandidateSpec): number | null {
  if (price_per_hour !== undefined) return price_per_hour;
  const driver = spec.providers[provider]?.driver;
  return driver === undefined || DRIVERS[driver].tellsPrices ? null : 0;
}

/** `2.07`, `2.07–3.00`, `at least 2.07`, `?`. */
export function costText({ from, to, isPartial }: Cost, hours = 1): string {
  const [least, most] = [dollars(from * hours), dollars(to * hours)];
  if (isPartial) return to === 0 ? '?' : `${least} or more`;
  return least === most ? least : `${least}–${most}`;
}

export function dollars(amount: number): string {
  return amount.toFixed(2);
}
