import { giveUp } from './act.ts';
import type { Control, Controls } from './control-table.ts';
import type { Core } from './core.ts';
import { exists, type LaunchRecord } from './launch.ts';
import type { AppliedSpec, SpecAnswer, SpecChange } from './rpc.ts';
import type { FleetSpec, ProviderSpec } from './spec.ts';
import { changesBetween, isAnotherWorker, isSame, movedAway, priceOf } from './spec-change.ts';
import { readState, removeState, writeState } from './state-table.ts';

/** The row of the providers that an earlier spec named and that may still have machines. */
const FORMER_PROVIDERS = 'providers_before';

/** The spec in force; an operator can replace it. */
export class Specs {
  readonly #core: Core;
  readonly #controls: Controls;
  /** The stored spec; undefined before it is read. It is read many times a second, and changed only by an operator. */
  #current: AppliedSpec | null | undefined;

  constructor(core: Core, controls: Controls) {
    this.#core = core;
    this.#controls = controls;
  }

  /** Forgets what was read, after a commit was rolled back. */
  reload(): void {
    this.#current = undefined;
  }

  /** Returns the spec in force, or null where there is none. */
  current(): AppliedSpec | null {
    if (this.#current === undefined) this.#current = readState<AppliedSpec>(this.#core.sql, 'spec');
    return this.#current;
  }

  apply(spec: FleetSpec, dryRun: boolean): SpecAnswer {
    const machines = this.#core.launches.machines().filter(exists);
    const refused = movedAway(this.providers(), spec, machines);
    return refused === null ? this.#change(spec, dryRun) : { refused };
  }

  /** Takes the spec back: every launched machine is drained and terminated. */
  remove(dryRun: boolean): SpecChange | null {
    return this.current() ? this.#change(null, dryRun) : null;
  }

  #change(after: FleetSpec | null, dryRun: boolean): SpecChange {
    const { sql, now } = this.#core;
    const before = this.current()?.spec ?? null;
    const alive = this.#core.launches.alive();
    const changes = changesBetween(
      before,
      after,
      (id) => alive.filter(({ config_id }) => config_id === id).length,
    );
    if (!dryRun) {
      const providers = this.providers();
      const changed = new Map<string, Partial<Control>>();
      for (const [id, pool] of Object.entries(after?.pools ?? {})) {
        const { revision, removed } = this.#controls.of(id);
        const known = before?.pools[id] ?? removed;
        if (!known || isSame(known, pool)) continue;
        const isAnother = isAnotherWorker(known, pool);
        changed.set(id, { forgiven_at: now(), revision: isAnother ? revision + 1 : revision });
        if (!isAnother) continue;
        // Ready workers serve until the rule has replaced them.
        const isStarting = ({ config_id, state }: LaunchRecord) => config_id === id && state !== 'ready';
        for (const launch of alive.filter(isStarting)) giveUp(this.#core, launch);
      }
      const launched = new Set(this.#core.launches.launched().map(({ config_id }) => config_id));
      for (const [id, removed] of Object.entries(before?.pools ?? {})) {
        if (!after?.pools[id] && launched.has(id)) changed.set(id, { removed });
      }
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
