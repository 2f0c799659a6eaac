import type { LaunchRecord } from '../../src/scheduler/launch.ts';
import type { LauncherReport } from '../../src/scheduler/rpc.ts';

/** What the scheduler was told of providers by complete lists, true ones or not. Times in epoch ms, the true ones. */
export class Lists {
  readonly #now: () => number;
  /** When each provider's newest list was made. */
  readonly #madeAt = new Map<string, number>();
  /** Since when no list has shown the machine of a launch, by its name. */
  readonly #missingSince = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A list is on its way to the scheduler, which may be killed before it has taken it. */
  sent({ lists }: LauncherReport, launches: Iterable<LaunchRecord>): void {
    const alive = [...launches].filter(({ state }) => state !== 'intended');
    for (const { provider, machines, age_ms } of lists) {
      if (!machines) continue;
      const names = new Set(machines.map(({ name }) => name));
      for (const launch of alive) {
        if (launch.provider !== provider || names.has(launch.name)) continue;
        const since = this.#missingSince.get(launch.name) ?? this.#now() - age_ms;
        this.#missingSince.set(launch.name, since);
      }
    }
  }

  /** The scheduler has taken the lists of a report. */
  taken({ lists }: LauncherReport): void {
    for (const { provider, machines, age_ms } of lists) {
      if (!machines) continue;
      this.#madeAt.set(provider, this.#now() - age_ms);
      for (const { name } of machines) this.#missingSince.delete(name);
    }
  }

  /** How old a provider's newest list is, ms; infinite before the first. */
  ageOf(provider: string): number {
    return this.#now() - (this.#madeAt.get(provider) ?? Number.NEGATIVE_INFINITY);
  }

  /** For how long all lists have lacked the machine of this name, ms. */
  missingFor(name: string): number {
    return this.#now() - (this.#missingSince.get(name) ?? this.#now());
  }
}
