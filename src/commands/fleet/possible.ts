import type { FleetSpec, PoolSpec } from '../../scheduler/spec.ts';
import { plural } from '../../show/format.ts';
import { dollars, totalCost } from './cost.ts';
import type { Remark } from './issues.ts';

const HOURS_A_DAY = 24;

/** Returns what a fleet asks for and cannot get. The fleet is applied all the same: the rest of it works. */
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

/** Returns remarks on pools that need more GPUs than the file names for one's own machines. */
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

/** The drivers whose machines pull their image from a registry. */
const PULLING: readonly string[] = ['runpod', 'vast', 'dstack', 'kubernetes'];

/** Returns remarks on pools that name no image but pull one: none is published under the default name of builds. */
function imagesMissing({ pools, providers }: FleetSpec): Remark[] {
  return Object.entries(pools).flatMap(([id, { image, machines }]) => {
    const elsewhere = machines.find(({ provider }) => PULLING.includes(providers[provider]?.driver ?? ''));
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
