import { DRIVERS } from '../../scheduler/drivers.ts';
import type { CandidateSpec, FleetSpec, PoolSpec } from '../../scheduler/spec.ts';
import { plural } from '../../show/format.ts';
import type { Remark } from './remarks.ts';

/** The cost of workers, US dollars an hour. */
interface Cost {
  /** The cost on the cheapest of the machines that a pool may run on; `to` is the cost on the dearest. */
  from: number;
  to: number;
  /** Whether only the provider knows the price of some machines, which are in neither sum. */
  isPartial: boolean;
}

/** Returns the cost of this many workers of a pool. */
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
 * Returns the price of a machine, or null if only the provider knows it. A machine of the operator's own costs nothing
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

const HOURS_A_DAY = 24;

/** Returns remarks on what a fleet requests and cannot get. The fleet is applied all the same: the rest of it works. */
export function impossible(spec: FleetSpec): Remark[] {
  return [...budgetBelowMin(spec), ...gpusMissing(spec), ...providersTooSmall(spec), ...imagesMissing(spec)];
}

function budgetBelowMin({ budget, ...spec }: FleetSpec): Remark[] {
  const { from } = totalCost({ budget, ...spec }, ({ min }) => min);
  const limits = [
    { field: 'per_hour', limit: budget.per_hour, cost: from, span: 'an hour' },
    { field: 'per_day', limit: budget.per_day, cost: from * HOURS_A_DAY, span: 'a day' },
  ];
  return limits.flatMap(({ field, limit, cost, span }) => {
    if (limit === undefined || limit >= cost) return [];
    const text = `is less than the $${dollars(cost)} ${span} that all pools cost at min: not all of these workers are started`;
    return [{ path: ['budget', field], of: 'value' as const, text }];
  });
}

/** Returns remarks on pools that need more GPUs than the file names for the operator's own machines. */
function gpusMissing(spec: FleetSpec): Remark[] {
  return everyMachine(spec).flatMap(({ path, pool, machine, isOnly }) => {
    const provider = spec.providers[machine.provider];
    const gpus = provider && 'gpus' in provider ? provider.gpus : undefined;
    if (gpus === undefined || machine.gpus === 0) return [];
    const has = `${machine.provider} has ${gpus.length}`;
    if (machine.gpus > gpus.length) {
      return [{ path, of: 'value' as const, text: `needs ${plural(machine.gpus, 'GPU')}, and ${has}` }];
    }
    const needed = pool.max * machine.gpus;
    if (!isOnly || needed <= gpus.length) return [];
    const text = `${plural(pool.max, 'worker')} of ${plural(machine.gpus, 'GPU')} each need ${needed}, and ${has}`;
    return [{ path, of: 'value' as const, text }];
  });
}

function providersTooSmall(spec: FleetSpec): Remark[] {
  return Object.entries(spec.providers).flatMap(([id, { max }]) => {
    if (max === undefined) return [];
    const needed = Object.values(spec.pools)
      .filter(({ machines }) => machines.every(({ provider }) => provider === id))
      .reduce((sum, { min }) => sum + min, 0);
    if (needed <= max) return [];
    const text = `is less than the ${plural(needed, 'worker')} that pools have there at min`;
    return [{ path: ['providers', id, 'max'], of: 'value' as const, text }];
  });
}

/** Returns remarks on pools that name no image but pull one, since none is published under the default name. */
function imagesMissing({ pools, providers }: FleetSpec): Remark[] {
  return Object.entries(pools).flatMap(([id, { image, machines }]) => {
    const elsewhere = machines.find(({ provider }) => {
      const driver = providers[provider]?.driver;
      return driver !== undefined && DRIVERS[driver].pullsImage;
    });
    if (image !== undefined || elsewhere === undefined) return [];
    const text = `names no image, and none is published: build the worker's, push it to a registry that ${elsewhere.provider} can pull from, and name it as "image" (docs/deploying.md#builds)`;
    return [{ path: ['pools', id], of: 'key' as const, text }];
  });
}

function everyMachine(spec: FleetSpec) {
  return Object.entries(spec.pools).flatMap(([id, pool]: [string, PoolSpec]) =>
    pool.machines.map((machine, index) => ({
      path: ['pools', id, 'machines', index, 'gpus'],
      pool,
      machine,
      isOnly: pool.machines.length === 1,
    })),
  );
}
