import type { UsageAmounts } from '../rpc.ts';
import { deleteCounts, readCounts, writeCounts } from '../store/counts-table.ts';
import type { Ports } from '../store/ports.ts';
import { type ConfigCounts, countsFrom, newCounts } from './config-counts.ts';

/** Anybody may name a config: those beyond so many are counted together, as `other`. */
const MOST_CONFIGS = 200;
const OTHER_CONFIGS = 'other';

/** A config without a job for so long gives its place to a new one, ms. */
const IDLE_MS = 24 * 3600 * 1000;

/** What only jobs in memory changed is written so much later, ms: a crash loses no more of it. */
const SAVED_WITHIN_MS = 1000;
/** It goes with any commit that is made after so long, ms. */
const GOES_ALONG_AFTER_MS = 500;
/** Before it is tried again where it could not be written, ms. */
const AGAIN_AFTER_MS = 30_000;

interface Place {
  counts: ConfigCounts;
  /** Epoch ms */
  changedAt: number;
}

/**
 * What happened to jobs, counted by config since the queue was made. A row each, which is written in the commit of the
 * stored job that it counts, so that no restart counts twice or forgets. A job in memory makes no commit of its own:
 * what it changed waits for the next one, or for a second.
 */
export class Counts {
  readonly #ports: Ports;
  readonly #places = new Map<string, Place>();
  /** Not written as they are now. */
  readonly #changed = new Set<string>();
  readonly #dropped = new Set<string>();
  #hasStored = false;
  /** Epoch ms; null: nothing is to be written. */
  #dueAt: number | null = null;
  #isFailing = false;

  constructor(ports: Ports) {
    this.#ports = ports;
    for (const { config_id, counts, changed_at } of readCounts(ports.sql)) {
      const place = {
        counts: countsFrom(JSON.parse(counts) as Partial<ConfigCounts>),
        changedAt: changed_at,
      };
      this.#places.set(config_id, place);
    }
  }

  /** The counts of a config, which the caller is about to change. @param isStored by a job that is a row */
  change(configId: string, isStored: boolean): ConfigCounts {
    const name = this.nameOf(configId);
    const now = this.#ports.now();
    let place = this.#places.get(name);
    if (!place) {
      this.#dropIdle(name);
      place = { counts: newCounts(), changedAt: now };
      this.#places.set(name, place);
      this.#dropped.delete(name);
    }
    place.changedAt = now;
    this.#changed.add(name);
    this.#hasStored ||= isStored;
    this.#dueAt ??= now + SAVED_WITHIN_MS;
    return place.counts;
  }

  /** Tokens, as they are counted for the usage of a token. @param isStored of a job that is a row */
  used(configId: string, amounts: Partial<UsageAmounts>, isStored: boolean): void {
    if (configId === '') return;
    const counts = this.change(configId, isStored);
    counts.tokens.input += amounts.input ?? 0;
    counts.tokens.output += amounts.output ?? 0;
    counts.tokens.cached_input += amounts.cached ?? 0;
    counts.tokens.reasoning += amounts.reasoning ?? 0;
    counts.tokens.wasted += amounts.wasted ?? 0;
    counts.estimated += amounts.estimated_requests ?? 0;
  }

  /** Under which name a config is counted: its own, or `other`. */
  nameOf(configId: string): string {
    if (this.#places.has(configId) || this.#places.size < MOST_CONFIGS) return configId;
    return this.#idlest() === null ? OTHER_CONFIGS : configId;
  }

  /** Null: nothing was counted of it. */
  of(name: string): ConfigCounts | null {
    return this.#places.get(name)?.counts ?? null;
  }

  /** Names of what had a job within a day. */
  recent(): string[] {
    const since = this.#ports.now() - IDLE_MS;
    return [...this.#places].filter(([, { changedAt }]) => changedAt > since).map(([name]) => name);
  }

  /** Part of the commit that is about to be made: writes what a stored job changed, and all else with it. */
  beforeCommit(): void {
    const goesAlong =
      this.#dueAt !== null && this.#ports.now() >= this.#dueAt - SAVED_WITHIN_MS + GOES_ALONG_AFTER_MS;
    if (this.#hasStored || goesAlong) this.#save();
  }

  /** Epoch ms at which a commit is wanted; null: all is written. */
  get dueAt(): number | null {
    return this.#dueAt;
  }

  /** A disk that is full must not end the object: what is not written stays in memory. */
  #save(): void {
    const { sql, undoable, log, now } = this.#ports;
    const problem = undoable(() => {
      for (const config_id of this.#changed) {
        const { counts, changedAt } = this.#places.get(config_id)!;
        writeCounts(sql, { config_id, counts: JSON.stringify(counts), changed_at: changedAt });
      }
      for (const name of this.#dropped) deleteCounts(sql, name);
    });
    this.#hasStored = false;
    this.#dueAt = problem === null ? null : now() + AGAIN_AFTER_MS;
    if (problem === null) {
      this.#changed.clear();
      this.#dropped.clear();
    } else if (!this.#isFailing)
      log('error', 'counts cannot be written; they are kept in memory', { error: problem });
    this.#isFailing = problem !== null;
  }

  /** Makes room for one more. */
  #dropIdle(name: string): void {
    if (this.#places.size < MOST_CONFIGS || name === OTHER_CONFIGS) return;
    const idlest = this.#idlest();
    if (idlest === null) return;
    this.#places.delete(idlest);
    this.#changed.delete(idlest);
    this.#dropped.add(idlest);
  }

  /** The config that has been idle longest, and for long enough to be forgotten. */
  #idlest(): string | null {
    let [idlest, since]: [string | null, number] = [null, this.#ports.now() - IDLE_MS];
    for (const [name, { changedAt }] of this.#places) {
      if (changedAt > since || name === OTHER_CONFIGS) continue;
      [idlest, since] = [name, changedAt];
    }
    return idlest;
  }
}
