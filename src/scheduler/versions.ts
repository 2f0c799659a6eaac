import type { Sql } from '../durable/ports.ts';
import type { LaunchRecord } from './launch.ts';
import type { CanaryShare } from './machines.ts';
import { type FleetSpec, USUAL_UPDATE } from './spec.ts';
import { readState, writeState } from './state.ts';
import { type StartedWith, startedWith, versionOf } from './version.ts';

/** The versions of one pool's workers: what the file says, what is wanted, and what is kept to go back to. */
export interface PoolVersions {
  /** The version of the pool's part of the fleet's file. */
  filed: string;
  /** The version that every worker is to have. It differs from `filed` once an operator or the rule has gone back. */
  wanted: string;
  /** When it became wanted, or an operator last let its rollout go on, epoch ms. */
  since: number;
  /** The version that was wanted before, or null. */
  from: string | null;
  /** Since when an operator holds the pool's rollouts, epoch ms; null, or left out by an older scheduler: none does. */
  paused_since?: number | null;
  /** The number of times that an operator has started the same part of the file anew. */
  anew: number;
  /** The versions that can be launched, the one that was wanted last first: at most KEPT of them. */
  kept: KeptVersion[];
}

/** A version with what its workers are started with, so that it can be launched without the file that it is from. */
export interface KeptVersion {
  version: string;
  started_with: StartedWith;
  /** When it was last made the wanted one, epoch ms. */
  since: number;
  /** When a worker of it was first proved, epoch ms; null: none was. */
  proved_at: number | null;
  /** Why it is launched no more, with the last words of a worker; null: nothing speaks against it. */
  stopped_because: string | null;
}

const KEPT = 3;

/** Stores the versions of all pools, in one row, which is read once. */
export class Versions {
  readonly #sql: Sql;
  #known: Record<string, PoolVersions> | null = null;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  of(configId: string): PoolVersions | null {
    return this.#all()[configId] ?? null;
  }

  save(configId: string, versions: PoolVersions): void {
    this.saveAll(new Map([[configId, versions]]));
  }

  /** Writes the versions of several pools. @param isKept returns whether the versions of a pool stay */
  saveAll(changed: ReadonlyMap<string, PoolVersions>, isKept = (_configId: string) => true): void {
    const before = this.#all();
    const kept = Object.entries(before).filter(([id]) => isKept(id));
    const isNews = [...changed].some(([id, versions]) => before[id] !== versions);
    if (isNews || kept.length < Object.keys(before).length)
      this.#write({ ...Object.fromEntries(kept), ...Object.fromEntries(changed) });
  }

  /** Returns the version that a pool's workers are to have, or null: the pool has never been in a file. */
  wanted(configId: string): string | null {
    return this.of(configId)?.wanted ?? null;
  }

  /** Returns what the workers of a version are started with, or null: it is not kept any more. */
  startedWith(configId: string, version: string | null): StartedWith | null {
    return this.of(configId)?.kept.find((one) => one.version === version)?.started_with ?? null;
  }

  /** Moves all times back after the clock was set back. */
  moveBack(byMs: number): void {
    const moved = Object.entries(this.#all()).map(
      ([id, { since, paused_since, kept, ...more }]): [string, PoolVersions] => [
        id,
        {
          ...more,
          since: since - byMs,
          paused_since: paused_since == null ? null : paused_since - byMs,
          kept: kept.map((one) => ({
            ...one,
            since: one.since - byMs,
            proved_at: one.proved_at === null ? null : one.proved_at - byMs,
          })),
        },
      ],
    );
    if (moved.length > 0) this.#write(Object.fromEntries(moved));
  }

  /** Forgets what was read, after a commit was rolled back. */
  reload(): void {
    this.#known = null;
  }

  #write(all: Record<string, PoolVersions>): void {
    writeState(this.#sql, 'versions', all);
    this.#known = all;
  }

  #all(): Record<string, PoolVersions> {
    this.#known ??= readState(this.#sql, 'versions') ?? {};
    return this.#known;
  }
}

/** Returns the wanted versions that are not proved, of pools whose update tries those on a part of the requests. */
export function sharesIn(spec: Pick<FleetSpec, 'pools'> | null, versions: Versions): CanaryShare[] {
  return Object.entries(spec?.pools ?? {}).flatMap(([config_id, { update = USUAL_UPDATE }]) => {
    const own = versions.of(config_id);
    const wanted = own?.kept.find(({ version }) => version === own.wanted);
    if (!update.canary || !wanted || wanted.proved_at !== null) return [];
    return { config_id, version: wanted.version, share: update.canary.share };
  });
}

/**
 * Returns a pool's versions once its part of the file is in force. If what workers are started with has changed, the
 * file's version is wanted from now on, whatever was wanted before, and also where it was stopped once.
 */
export function filed(before: PoolVersions | null, pool: StartedWith, now: number): PoolVersions {
  const version = versionOf(pool, before?.anew);
  if (before?.filed === version) return before;
  return { ...wantedNow(before, version, pool, now), filed: version };
}

/**
 * Returns a pool's versions with the wanted one started once more, for what no hash can see. That is the file's, unless
 * an operator or the rule has gone back.
 */
export function startedAnew(before: PoolVersions, pool: StartedWith, now: number): PoolVersions {
  const isFiled = before.wanted === before.filed;
  const same = before.kept.find(({ version }) => version === before.wanted)?.started_with ?? pool;
  let anew = before.anew + 1;
  while (before.kept.some(({ version }) => version === versionOf(same, anew))) anew += 1;
  const version = versionOf(same, anew);
  return { ...wantedNow(before, version, same, now), ...(isFiled && { filed: version, anew }) };
}

/** Returns a pool's versions with another wanted one. */
export function wantedNow(
  before: PoolVersions | null,
  version: string,
  pool: StartedWith,
  now: number,
): PoolVersions {
  const known = before?.kept.find((one) => one.version === version);
  const next: KeptVersion = {
    version,
    started_with: startedWith(pool),
    since: now,
    proved_at: known?.proved_at ?? null,
    stopped_because: null,
  };
  const others = (before?.kept ?? []).filter((one) => one.version !== version);
  // The last one that was proved stays, since it is what a rollout goes back to.
  const proved = others.find((one) => one.proved_at !== null);
  const kept = [next, ...others].slice(0, KEPT);
  if (proved && !kept.includes(proved)) kept[KEPT - 1] = proved;
  return {
    filed: before?.filed ?? version,
    wanted: version,
    since: now,
    from: before && before.wanted !== version ? before.wanted : (before?.from ?? null),
    paused_since: before?.paused_since ?? null,
    anew: before?.anew ?? 0,
    kept,
  };
}

/** Returns a pool's versions once a worker of one was proved. */
export function proved(before: PoolVersions, version: string, now: number): PoolVersions {
  return changed(before, version, (one) => ({ ...one, proved_at: one.proved_at ?? now }));
}

/** Returns a pool's versions once one was stopped, and another is wanted again. */
export function stopped(
  before: PoolVersions,
  version: string,
  backTo: string,
  why: string,
  now: number,
): PoolVersions {
  const noted = changed(before, version, (one) => ({ ...one, proved_at: null, stopped_because: why }));
  const back = noted.kept.find((one) => one.version === backTo);
  if (noted.wanted !== version || !back) return noted;
  return wantedNow(noted, back.version, back.started_with, now);
}

/** Returns the version other than this one that was proved and wanted last, or null. */
export function lastProved({ kept }: PoolVersions, butNot: string): KeptVersion | null {
  return (
    kept.find((one) => one.version !== butNot && one.proved_at !== null && one.stopped_because === null) ??
    null
  );
}

function changed(
  before: PoolVersions,
  version: string,
  change: (one: KeptVersion) => KeptVersion,
): PoolVersions {
  return { ...before, kept: before.kept.map((one) => (one.version === version ? change(one) : one)) };
}

/** The fields of a row that a scheduler without versions wrote in place of a launch's version. */
interface Revised {
  version?: string | null;
  revision?: number | undefined;
}

/**
 * Gives versions to what a scheduler without them wrote: its launches had a number that grew with each change of their
 * pool. Those with the newest number have the version that the file says, and others none. Runs before anything is
 * changed.
 */
export function adoptVersions(
  versions: Versions,
  pools: FleetSpec['pools'],
  launches: readonly (LaunchRecord & Revised)[],
  revisionOf: (configId: string) => number,
  now: number,
): LaunchRecord[] {
  const isCurrent = ({ config_id, revision = 0 }: Pick<LaunchRecord, 'config_id'> & Revised) =>
    revision === revisionOf(config_id);
  const unknown = launches.filter((launch) => launch.version === undefined);
  const adopted = new Map<string, PoolVersions>();
  for (const [id, pool] of Object.entries(pools)) {
    if (versions.of(id)) continue;
    const first = filed(null, pool, now);
    const wasReady = unknown.some(
      (one) => one.config_id === id && one.ready_at !== null && one.state === 'ready' && isCurrent(one),
    );
    adopted.set(id, wasReady ? proved(first, first.wanted, now) : first);
  }
  versions.saveAll(adopted);
  return unknown.map(({ revision, ...launch }) => ({
    ...launch,
    version: isCurrent({ config_id: launch.config_id, revision }) ? versions.wanted(launch.config_id) : null,
  }));
}
