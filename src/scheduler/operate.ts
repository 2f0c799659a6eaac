import { giveUp } from './act.ts';
import type { Core } from './core.ts';
import { exists, isEnding } from './launch.ts';
import type { ProviderSpec } from './provider-spec.ts';
import type { AppliedSpec, ControlAnswer, PoolAction, SpecAnswer, SpecChange } from './rpc.ts';
import { type FleetSpec, type PoolSpec, USUAL_UPDATE } from './spec.ts';
import { type Control, type Controls, readState, removeState, writeState } from './state.ts';
import { differenceInWords, versionOf } from './version.ts';
import { filed, type PoolVersions, type Versions } from './versions.ts';

/** The name of the row with the providers that an earlier spec named and that may still have machines. */
const FORMER_PROVIDERS = 'providers_before';

/** Stores the spec in force, which an operator can replace. */
export class Specs {
  readonly #core: Core;
  readonly #controls: Controls;
  readonly #versions: Versions;
  /** The stored spec; undefined until it is read. It is read many times a second, and changed only by an operator. */
  #current: AppliedSpec | null | undefined;

  constructor(core: Core, controls: Controls, versions: Versions) {
    this.#core = core;
    this.#controls = controls;
    this.#versions = versions;
  }

  /** Forgets what was read, after a commit was rolled back. */
  reload(): void {
    this.#current = undefined;
  }

  /** Returns the spec in force, or null if there is none. */
  current(): AppliedSpec | null {
    if (this.#current === undefined) this.#current = readState<AppliedSpec>(this.#core.sql, 'spec');
    return this.#current;
  }

  apply(spec: FleetSpec, dryRun: boolean): SpecAnswer {
    const machines = this.#core.launches.machines().filter(exists);
    const refused = movedAway(this.providers(), spec, machines);
    return refused === null ? this.#change(spec, dryRun) : { refused };
  }

  /** Withdraws the spec: every launched machine is drained and terminated. */
  remove(dryRun: boolean): SpecChange | null {
    return this.current() ? this.#change(null, dryRun) : null;
  }

  #change(after: FleetSpec | null, dryRun: boolean): SpecChange {
    const { sql, now } = this.#core;
    const before = this.current()?.spec ?? null;
    const alive = this.#core.launches.alive();
    const of = (id: string) => alive.filter(({ config_id }) => config_id === id);
    const changes = changesBetween(before, after, {
      alive: (id) => of(id).length,
      outdated: (id, pool) => {
        const wanted = versionOf(pool, this.#versions.of(id)?.anew);
        return of(id).filter(({ version }) => version !== wanted).length;
      },
      versions: (id) => this.#versions.of(id),
    });
    if (!dryRun) {
      const providers = this.providers();
      const changed = new Map<string, Partial<Control>>();
      const versions = new Map<string, PoolVersions>();
      for (const [id, pool] of Object.entries(after?.pools ?? {})) {
        const known = before?.pools[id];
        if (known && !isSame(known, pool)) changed.set(id, { forgiven_at: now() });
        versions.set(id, filed(this.#versions.of(id), pool, now()));
      }
      const isAlive = new Set(alive.map(({ config_id }) => config_id));
      this.#versions.saveAll(versions, (id) => isAlive.has(id));
      this.#controls.changeAll(changed);
      if (after) writeState(sql, 'spec', { spec: after, applied_at: now() } satisfies AppliedSpec);
      else removeState(sql, 'spec');
      this.reload();
      // The scheduler still lists and ends the machines of former providers.
      writeState(sql, FORMER_PROVIDERS, this.#stillUsed(providers, after));
    }
    const learned = (provider: string, instanceType: string) =>
      this.#core.providers.prices(provider)[instanceType] ?? 0;
    return { applied: !dryRun, changes, price_per_hour: priceOf(after, learned) };
  }

  /** Returns the spec's providers, and former ones that still have machines of this installation. */
  providers(): Record<string, ProviderSpec> {
    const before = readState<Record<string, ProviderSpec>>(this.#core.sql, FORMER_PROVIDERS) ?? {};
    const after = this.current()?.spec ?? null;
    return { ...this.#stillUsed(before, after), ...after?.providers };
  }

  #stillUsed(providers: Record<string, ProviderSpec>, spec: FleetSpec | null): Record<string, ProviderSpec> {
    const used = new Set(this.#core.launches.machines().map(({ provider }) => provider));
    return Object.fromEntries(
      Object.entries(providers).filter(([name]) => used.has(name) && !spec?.providers[name]),
    );
  }
}

/** The fields that locate a provider's machines: its daemon, cluster or account. */
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
 * Returns why a file cannot be put in force, or null. Machines are listed and ended by the name of their provider, so
 * that name must still lead to them.
 * @param machines the machines that exist
 */
function movedAway(
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

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

const NOTHING: FleetSpec = { budget: {}, providers: {}, pools: {}, aliases: {} };

interface Own {
  /** Returns how many machines a pool has. */
  alive(configId: string): number;
  /** Returns how many of them have another version than this part of the file. */
  outdated(configId: string, pool: PoolSpec): number;
  versions(configId: string): PoolVersions | null;
}

/** Returns the changes from one spec to another, a sentence each. */
function changesBetween(
  before: FleetSpec | null,
  after: FleetSpec | null,
  { alive, outdated, versions }: Own,
): string[] {
  const [from, to] = [before ?? NOTHING, after ?? NOTHING];
  const changes: string[] = [];
  for (const [id, pool] of Object.entries(to.pools)) {
    const known = from.pools[id];
    if (!known) changes.push(`pool ${id} is new: ${bounds(pool)}`);
    else if (versionOf(known) !== versionOf(pool)) {
      changes.push(
        `pool ${id} has other settings for its workers (${differenceInWords(pool, known)})${replaced(outdated(id, pool), pool, versions(id))}: ${bounds(pool)}`,
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
  changes.push(...aliasChanges(from.aliases ?? {}, to.aliases));
  if (!isSame(from.budget, to.budget)) changes.push(`the budget is ${budget(to.budget)}`);
  return changes;
}

/** Returns the changes of aliases, a sentence each. */
function aliasChanges(from: FleetSpec['aliases'], to: FleetSpec['aliases']): string[] {
  const changes: string[] = [];
  for (const [name, alias] of Object.entries(to)) {
    const known = from[name];
    if (isSame(known ?? null, alias)) continue;
    const shares = alias.to.map(({ model, weight }) => `${model} ${weight}`).join(', ');
    changes.push(`the alias ${name} ${known ? 'has changed' : 'is new'}: ${shares}`);
  }
  for (const name of Object.keys(from)) if (!to[name]) changes.push(`the alias ${name} is gone`);
  return changes;
}

/**
 * Returns the price of all pools with their fewest and their most workers, each on its first machine, US dollars an
 * hour.
 */
function priceOf(spec: FleetSpec | null, learned: (provider: string, instanceType: string) => number) {
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

function replaced(
  count: number,
  { max, update = USUAL_UPDATE }: PoolSpec,
  versions: PoolVersions | null,
): string {
  if (count === 0) return '';
  const held =
    versions?.paused_since != null ? ', once its rollout, which an operator holds, is resumed' : '';
  const newer =
    versions && versions.wanted !== versions.filed
      ? ', in place of the rollout that an operator or the scheduler began'
      : '';
  if (count > 1) return `, and its ${workers(count)} replaced step by step${newer}${held}`;
  if (max === 1 && update.unavailable === 0)
    return ', but its worker stays while it is needed, since max is 1 and update.unavailable 0';
  return `, and its worker is replaced once a new one has proved itself${newer}${held}`;
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

/** A worker that an operator requested is kept for this many ms, with or without work. */
const HELD_MS = 10 * 60_000;

interface Subject {
  core: Core;
  controls: Controls;
  applied: AppliedSpec | null;
}

/** Refuses an operator's command about a pool that the fleet does not have. */
export function unknownPool(applied: AppliedSpec | null, configId: string) {
  const known = Object.keys(applied?.spec.pools ?? {}).join(', ');
  const message = `The fleet has no pool "${configId}"${known ? `, only ${known}` : ''}.`;
  return { ok: false, reason: 'unknown_pool', message } as const;
}

/** Carries out an operator's action on one pool. */
export function control(
  { core, controls, applied }: Subject,
  configId: string,
  action: PoolAction,
  dryRun: boolean,
): ControlAnswer {
  const spec = applied?.spec.pools[configId];
  if (!spec) return unknownPool(applied, configId);
  const now = core.now();
  const own = core.launches.alive().filter(({ config_id }) => config_id === configId);
  const before = controls.of(configId);
  const would = dryRun ? 'would be' : 'is';
  const answer = (text: string, after = before.control): ControlAnswer => ({
    ok: true,
    text,
    control: after,
  });
  switch (action) {
    case 'pause':
      if (!dryRun) controls.change(configId, { control: 'paused' });
      return answer(`${configId} ${would} paused: nothing is launched and nothing drained.`, 'paused');
    case 'resume':
      if (!dryRun) controls.change(configId, { control: 'automatic', forgiven_at: now });
      return answer(`${configId} ${would} scaled by what it has to do again.`, 'automatic');
    case 'drain':
      if (!dryRun) {
        controls.change(configId, { control: 'drained', at_least: null });
        for (const launch of own) giveUp(core, launch);
      }
      return answer(
        `${countOfWorkers(own.length)} of ${configId} ${dryRun ? 'would be' : own.length === 1 ? 'is' : 'are'} drained, and none ${would} launched until it is resumed.`,
        'drained',
      );
    case 'launch': {
      if (before.control !== 'automatic') {
        const message = `${configId} is ${before.control}: resume it first.`;
        return { ok: false, reason: 'refused', message };
      }
      const staying = own.filter((launch) => !isEnding(launch)).length;
      if (staying >= spec.max) {
        const message = `${configId} has ${countOfWorkers(staying)} already, and its max is ${spec.max}: raise it in the fleet's file.`;
        return { ok: false, reason: 'refused', message };
      }
      const wanted = staying + 1;
      if (!dryRun) controls.change(configId, { at_least: { workers: wanted, until: now + HELD_MS } });
      return answer(
        `${configId} ${dryRun ? 'would be' : 'is'} given at least ${countOfWorkers(wanted)} for ${HELD_MS / 60_000} min, as far as the budget pays for it.`,
      );
    }
  }
}

function countOfWorkers(count: number): string {
  return count === 1 ? '1 worker' : `${count} workers`;
}
