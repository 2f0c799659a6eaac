import type { ScalingLauncher } from '../protocol/index.ts';
import { DRIVERS, type DriverName } from './drivers.ts';
import type { LauncherReport, MachineList } from './rpc.ts';

/** A list older than this many listing intervals is stale. */
const FRESH_LISTS = 3;
/** The interval at which a provider is listed, ms. */
export const LIST_EVERY_MS = 15_000;
/** A launcher that has not synced for this many ms is forgotten. */
const LAUNCHER_KEPT_MS = 3_600_000;

interface Listed {
  /** When the call for the newest complete list began, epoch ms; null: no list was complete. */
  complete_at: number | null;
  /** The reason why the newest list failed; null: it did not fail. */
  error: string | null;
}

/**
 * Stores the reports of launchers about providers and themselves, in memory only: after a restart no provider is fresh,
 * and the rule decides nothing about a provider's machines until a list comes.
 */
export class Providers {
  readonly #launchers = new Map<string, ScalingLauncher>();
  /** The newest lists by provider, then by host; the host is '' if every launcher sees the same machines. */
  readonly #listed = new Map<string, Map<string, Listed>>();
  readonly #prices = new Map<string, Map<string, number>>();
  /** When each launcher last tried to list each provider, epoch ms, and whether the list was complete. */
  readonly #tried = new Map<string, Map<string, { at: number; isComplete: boolean }>>();

  heard(launcherId: string, { drivers, host, prices }: LauncherReport, now: number): void {
    this.#launchers.delete(launcherId);
    this.#launchers.set(launcherId, {
      launcher_id: launcherId,
      drivers: [...drivers],
      host: host ?? null,
      seen_at: now,
    });
    for (const { provider, instance_type, price_per_hour } of prices) {
      const known = this.#prices.get(provider) ?? new Map<string, number>();
      this.#prices.set(provider, known.set(instance_type, price_per_hour));
    }
    for (const [id, { seen_at }] of this.#launchers) {
      if (now - seen_at <= LAUNCHER_KEPT_MS) continue;
      this.#launchers.delete(id);
      for (const tried of this.#tried.values()) tried.delete(id);
    }
  }

  listed(launcherId: string, list: MachineList, host: string | null, now: number): void {
    const { provider, age_ms, machines, error } = list;
    const tried = this.#tried.get(provider) ?? new Map();
    this.#tried.set(provider, tried.set(launcherId, { at: now, isComplete: machines !== null }));
    const byHost = this.#listed.get(provider) ?? new Map<string, Listed>();
    this.#listed.set(provider, byHost);
    const before = byHost.get(host ?? '');
    const complete_at = machines === null ? (before?.complete_at ?? null) : now - age_ms;
    byHost.set(host ?? '', { complete_at, error: machines === null ? (error ?? 'it did not answer') : null });
  }

  /**
   * Returns whether this launcher could not list the provider, for lack of a key, a daemon or the network, while
   * another launcher can: orders go to that launcher.
   */
  isOutOfReach(launcherId: string, provider: string, now: number): boolean {
    const tried = this.#tried.get(provider);
    if (tried?.get(launcherId)?.isComplete !== false) return false;
    const isFresh = (at: number) => now - at <= FRESH_LISTS * LIST_EVERY_MS;
    return [...tried.values()].some(({ at, isComplete }) => isComplete && isFresh(at));
  }

  /** Returns whether a launcher made a complete list of the provider recently. */
  isFresh(provider: string, now: number): boolean {
    const newest = this.#newest(provider);
    return newest?.complete_at != null && now - newest.complete_at <= FRESH_LISTS * LIST_EVERY_MS;
  }

  /** Returns when the provider's newest complete list was made, and the error of the newest one. */
  standing(provider: string): { listed_at: number | null; error: string | null } {
    const newest = this.#newest(provider);
    return { listed_at: newest?.complete_at ?? null, error: newest?.error ?? null };
  }

  prices(provider: string): Record<string, number> {
    return Object.fromEntries(this.#prices.get(provider) ?? []);
  }

  launchers(): ScalingLauncher[] {
    return [...this.#launchers.values()];
  }

  #newest(provider: string): Listed | null {
    const listed = [...(this.#listed.get(provider)?.values() ?? [])];
    return listed.sort((one, other) => (other.complete_at ?? 0) - (one.complete_at ?? 0))[0] ?? null;
  }
}

/** Returns the host of a driver's machines for this launcher, or null if every launcher sees the same machines. */
export function hostOf(driver: DriverName, report: Pick<LauncherReport, 'host'>): string | null {
  return DRIVERS[driver].isBoundToHost ? (report.host ?? null) : null;
}
