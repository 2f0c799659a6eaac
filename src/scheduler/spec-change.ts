import type { SpecChange } from './rpc.ts';
import type { FleetSpec, PoolSpec, ProviderSpec } from './spec.ts';

/** The fields that a worker is started with: where one changes, the rule replaces running workers, one at a time. */
const STARTED_WITH = ['engine', 'model', 'image', 'env', 'secrets', 'slots', 'adapters'] as const;

/** Returns whether the pool's workers have to be replaced after the change. */
export function isAnotherWorker(before: PoolSpec, after: PoolSpec): boolean {
  return STARTED_WITH.some((field) => !isSame(before[field], after[field]));
}

/** The fields that say where a provider's machines are: its daemon, cluster or account. */
const PLACE = [
  'driver',
  'host',
  'context',
  'namespace',
  'url',
  'project',
  'api_key_variable',
  'token_variable',
];

/**
 * Returns why a file cannot be put in force, or null: machines are listed and ended by the name of their provider, so
 * under that name they have to stay within reach.
 * @param machines the machines that exist
 */
export function movedAway(
  before: Readonly<Record<string, ProviderSpec>>,
  { providers }: FleetSpec,
  machines: readonly { provider: string }[],
): string | null {
  for (const [name, after] of Object.entries(providers)) {
    const known = before[name];
    const { length } = machines.filter(({ provider }) => provider === name);
    if (!known || length === 0 || isSame(placeOf(known), placeOf(after))) continue;
    return `Provider ${name} has ${length} of our machines where it is now, and nobody would end them: give the new place another name.`;
  }
  return null;
}

function placeOf(spec: object): unknown[] {
  const fields = new Map(Object.entries(spec));
  return PLACE.map((field) => fields.get(field) ?? null);
}

export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

const NOTHING: FleetSpec = { budget: {}, providers: {}, pools: {} };

/**
 * Returns what changes from one spec to another, a sentence each.
 * @param alive returns how many machines a pool has
 */
export function changesBetween(
  before: FleetSpec | null,
  after: FleetSpec | null,
  alive: (configId: string) => number,
): string[] {
  const [from, to] = [before ?? NOTHING, after ?? NOTHING];
  const changes: string[] = [];
  for (const [id, pool] of Object.entries(to.pools)) {
    const known = from.pools[id];
    if (!known) changes.push(`pool ${id} is new: ${bounds(pool)}`);
    else if (isAnotherWorker(known, pool)) {
      changes.push(
        `pool ${id} has other settings for its workers${replaced(alive(id), pool)}: ${bounds(pool)}`,
      );
    } else if (!isSame(known, pool)) changes.push(`pool ${id} has changed: ${bounds(pool)}`);
  }
  for (const id of Object.keys(from.pools)) {
    if (!to.pools[id]) changes.push(`pool ${id} is gone${ended(alive(id))}`);
  }
  for (const [name, provider] of Object.entries(to.providers)) {
    const known = from.providers[name];
    if (!known) changes.push(`provider ${name} is new: ${provider.driver}`);
    else if (!isSame(known, provider)) changes.push(`provider ${name} has changed`);
  }
  for (const name of Object.keys(from.providers)) {
    if (!to.providers[name]) changes.push(`provider ${name} is gone`);
  }
  if (!isSame(from.budget, to.budget)) changes.push(`the budget is ${budget(to.budget)}`);
  return changes;
}

/** Returns the price of all pools at their least and at their most, on their first machines, US dollars an hour. */
export function priceOf(spec: FleetSpec | null, learned: (provider: string, instanceType: string) => number) {
  const price: SpecChange['price_per_hour'] = { min: 0, max: 0 };
  for (const { machines, min, max } of Object.values(spec?.pools ?? {})) {
    const [first] = machines;
    if (!first) continue;
    // Providers report the price of one GPU.
    const each =
      first.price_per_hour ?? learned(first.provider, first.instance_type) * Math.max(1, first.gpus);
    price.min += min * each;
    price.max += max * each;
  }
  return price;
}

function bounds({ min, max, model }: PoolSpec): string {
  return `${min} to ${max} ${max === 1 ? 'worker' : 'workers'} of ${model}`;
}

function replaced(count: number, { max }: PoolSpec): string {
  if (count === 0) return '';
  if (count > 1) return `, and its ${workers(count)} replaced one by one`;
  if (max === 1) return ', but its worker keeps those from before, since max is 1';
  return ', and its worker is replaced once a new one is ready';
}

function ended(count: number): string {
  return count === 0 ? '' : `: its ${workers(count)} drained and terminated`;
}

function workers(count: number): string {
  return count === 1 ? 'worker is' : `${count} workers are`;
}

function budget({ per_hour, per_day }: FleetSpec['budget']): string {
  const parts = [
    ...(per_hour === undefined ? [] : [`$${per_hour} an hour`]),
    ...(per_day === undefined ? [] : [`$${per_day} a day`]),
  ];
  return parts.length === 0 ? 'without a limit' : `${parts.join(' and ')} at most`;
}
