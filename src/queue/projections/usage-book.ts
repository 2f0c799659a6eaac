import type { Counted } from '../../admission/accounts.ts';
import type { Book } from '../../admission/book.ts';
import type { Charge } from '../../admission/charge.ts';
import type { Projection } from '../events/projection.ts';
import type { WaitingJob } from '../job.ts';
import {
  REPORTED_AMOUNTS,
  USAGE_AMOUNTS,
  USAGE_KEYS,
  type UsageAmounts,
  type UsageKey,
  type UsageSum,
  type UsageWanted,
} from '../rpc.ts';
import { Newest } from '../state/recent-requests.ts';
import type { Core } from '../state/state.ts';
import {
  addUsage,
  hourOf,
  insertCounted,
  rollUpUsage,
  sumUsage,
  type UsageEntry,
  type Used,
  wasCounted,
} from '../store/usage-table.ts';
import type { Counts } from './counts.ts';
import { WriteBehind } from './write-behind.ts';

/** The most attempts remembered while their usage cannot be written. */
const MOST_UNWRITTEN = 10_000;
/** The most models of a pool told apart in one life of the object: some engines repeat any name that a request has. */
const MODELS_A_POOL = 64;
const OTHER_MODEL = 'other';
/** The most attempts given up that are remembered, since their workers may report again. */
const MOST_REMEMBERED = 1000;

const DAY_MS = 24 * 3600 * 1000;

/** An attempt that only its worker still runs. */
export interface GivenUp {
  key: UsageKey;
  /**
   * Tokens of the prompt and the answer that the caller has got; the attempts that go on with the answer count them.
   */
  kept: number;
  /** The facts about the cancellation; null if another attempt follows or the job failed. */
  cancelled: Cancelled | null;
}

/** An attempt whose job was cancelled while it ran, and whose worker has yet to report what it used. */
export interface Cancelled {
  /** Tokens of the attempt's answer that are counted already. */
  told: number;
  /** The tenant's charge for the attempt; null if it is not known. */
  charge: Charge<WaitingJob> | null;
}

/**
 * Counts all usage, and each use once. The usage of waiting jobs is written together with the fence tokens of their
 * attempts, and only then does the queue acknowledge the settlements. A worker without an acknowledgement settles
 * again, also with the queue's next process, which looks the fence token up.
 */
export class UsageBook extends WriteBehind implements Projection {
  readonly #counts: Counts;
  readonly #limits: Book;
  readonly #models = new Map<string, Set<string>>();
  /** Usage that is not written yet, by hour and key. */
  readonly #gathered = new Map<string, { atMs: number; key: UsageKey; amounts: UsageAmounts }>();
  /** Fence tokens of the attempts whose usage is not written yet. */
  readonly #fences = new Set<number>();
  #effects: (() => void)[] = [];
  /** Attempts that were given up while they ran, by fence token: what they still report is wasted, or was cancelled. */
  readonly #givenUp = new Newest<number, GivenUp>(MOST_REMEMBERED);
  /** The newest given-up attempt of each job, by job id. */
  readonly #givenUpOf = new Newest<string, GivenUp>(MOST_REMEMBERED);
  /**
   * Tokens of prompt and answer that each attempt left to the next one, by the fence token of the attempt that left
   * them.
   */
  readonly #kept = new Newest<number, number>(MOST_REMEMBERED);
  /** The tokens that attempts of an earlier process of the queue left to the attempts that go on, by job id. */
  readonly #keptEarlier = new Newest<string, number>(MOST_REMEMBERED);
  /** The usage that each of the newest waiting jobs was counted as, and when, by job id. */
  readonly #countedAs = new Newest<string, { atMs: number; entry: UsageEntry }>(MOST_REMEMBERED);
  /** The day of the last roll-up, in days since 1970. */
  #rolledUpOn = -1;

  constructor(core: Core, counts: Counts) {
    super(core, 'sums of usage');
    const limits = core.admission.book;
    this.#counts = counts;
    this.#limits = limits;
    limits.whenChanged = (isStored) => this.changed(isStored);
    limits.unwritten = (whose) => this.#unwrittenOf(whose);
  }

  /** Counts usage in the command's commit, which happens once: `beforeCommit` writes what all its commands used. */
  add(entry: UsageEntry): void {
    const { key, amounts } = entry;
    this.#gather(this.ports.now(), { ...entry, key: this.#bounded(key) });
    this.#counts.used(key, amounts, true);
    this.changed(true);
  }

  /** Counts usage for a command without a commit. @param fence of the attempt; null if no worker got it */
  gather(entry: UsageEntry, fence: number | null): void {
    const { key, amounts } = entry;
    this.#gather(this.ports.now(), { ...entry, key: this.#bounded(key) });
    this.#counts.used(key, amounts, false);
    if (fence !== null) this.#fences.add(fence);
  }

  /** Says whether this attempt's usage is counted. Callers ask only if nothing else rules it out. */
  isCounted(fence: number): boolean {
    return this.#fences.has(fence) || wasCounted(this.ports.sql, fence);
  }

  /** Notes an attempt that only its worker still runs: no caller gets its result. */
  giveUp(fence: number, jobId: string, key: UsageKey, cancelled: Cancelled | null): void {
    this.changed(false);
    this.#fences.add(fence);
    const givenUp = { key, kept: 0, cancelled };
    this.#givenUp.set(fence, givenUp);
    this.#givenUpOf.set(jobId, givenUp);
  }

  /** Takes a given-up attempt, once; null if it was not given up, or too long ago. */
  takeGivenUp(fence: number): GivenUp | null {
    const givenUp = this.#givenUp.get(fence) ?? null;
    this.#givenUp.delete(fence);
    return givenUp;
  }

  /** Says whether the worker of a cancelled attempt has yet to report what the attempt used. */
  isReportAwaited(fence: number): boolean {
    return (this.#givenUp.get(fence)?.cancelled ?? null) !== null;
  }

  /** Notes what a waiting job that ended was counted as: if the gateway asks again, nobody got its answer. */
  counted(jobId: string, entry: UsageEntry): void {
    this.#countedAs.set(jobId, { atMs: this.ports.now(), entry });
  }

  hasCounted(jobId: string): boolean {
    return this.#countedAs.has(jobId);
  }

  /**
   * Corrects the counts for a request that came again, maybe after it seemed to have ended.
   * @param kept the tokens that its caller has got, as in GivenUp
   */
  asked(jobId: string, kept: number): void {
    const counted = this.#countedAs.get(jobId);
    this.#countedAs.delete(jobId);
    const givenUp = this.#givenUpOf.get(jobId);
    if (givenUp) givenUp.kept = kept;
    this.#givenUpOf.delete(jobId);
    if (counted === undefined) {
      if (!givenUp && kept > 0) this.#keptEarlier.set(jobId, kept);
      return;
    }
    const { key, amounts } = counted.entry;
    const takenBack = Object.fromEntries(REPORTED_AMOUNTS.map((name) => [name, -(amounts[name] ?? 0)]));
    const { input = 0, output = 0, wasted: before = 0 } = amounts;
    const wasted = Math.max(0, input + output + before - kept) - before;
    this.#gather(counted.atMs, { key: this.#bounded(key), amounts: { ...takenBack, wasted } });
  }

  /** Notes that an attempt is over, and that the next one goes on from so many tokens of its prompt and its answer. */
  keep(fence: number, tokens: number): void {
    if (tokens > 0) this.#kept.set(fence, tokens);
  }

  /** Returns how many tokens an attempt used and left to the next one. */
  keptOf(fence: number): number {
    return this.#kept.get(fence) ?? 0;
  }

  /** Returns how many tokens attempts of a waiting job from before the queue restarted left to the next one. */
  keptEarlier(jobId: string): number {
    return this.#keptEarlier.get(jobId) ?? 0;
  }

  hasEnded(fence: number): boolean {
    return this.isCounted(fence);
  }

  /** Calls `effect` when what the attempt used is on disk: at once if it is, or if there is nothing of it. */
  whenWritten(fence: number, effect: () => void): void {
    if (this.#fences.has(fence)) this.#effects.push(effect);
    else effect();
  }

  protected override save(): void {
    const { sql, now } = this.ports;
    this.#rollUp(now());
    for (const { atMs, key, amounts } of this.#gathered.values()) addUsage(sql, atMs, key, amounts);
    if (this.#fences.size > 0) insertCounted(sql, [...this.#fences]);
    this.#limits.save();
  }

  protected override afterSave(isSaved: boolean): void {
    if (isSaved) {
      this.#gathered.clear();
      this.#limits.saved();
    } else if (this.#fences.size <= MOST_UNWRITTEN) return;
    const effects = this.#effects;
    this.#effects = [];
    this.#fences.clear();
    for (const effect of effects) effect();
  }

  #unwrittenOf(whose: Counted): Used[] {
    const own = [...this.#gathered.values()].filter(({ key }) =>
      'tenant' in whose ? key.tenant === whose.tenant : key.token_name === whose.token_name,
    );
    return own.map(({ key: { model, config_id }, amounts: { input, output, nanodollars } }) => ({
      model,
      config_id,
      tokens: input + output,
      nanodollars,
    }));
  }

  #gather(atMs: number, entry: UsageEntry): void {
    const { key, amounts } = entry;
    this.changed(false);
    this.#limits.charge(entry, atMs);
    const id = [hourOf(atMs), ...USAGE_KEYS.map((name) => key[name])].join('\n');
    const sum = this.#gathered.get(id)?.amounts ?? { ...NOTHING };
    for (const name of USAGE_AMOUNTS) sum[name] += amounts[name] ?? 0;
    this.#gathered.set(id, { atMs, key, amounts: sum });
  }

  #bounded(key: UsageKey): UsageKey {
    const { config_id, model } = key;
    const models = this.#models.get(config_id) ?? new Set();
    this.#models.set(config_id, models);
    if (models.has(model) || models.size < MODELS_A_POOL) {
      models.add(model);
      return key;
    }
    return { ...key, model: OTHER_MODEL };
  }

  #rollUp(now: number): void {
    const today = Math.floor(now / DAY_MS);
    if (today === this.#rolledUpOn) return;
    rollUpUsage(this.ports.sql, now);
    this.#rolledUpOn = today;
  }
}

const NOTHING = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, 0])) as UsageAmounts;

/** The most rows of an answer about usage; more must be requested in parts. */
const MOST_ROWS = 10_000;

/** Writes what is still counted in memory, and sums everything that was used until now. */
export function usage(core: Core, wanted: UsageWanted): UsageSum[] {
  core.projections.get(UsageBook).write();
  return sumUsage(core.sql, wanted, MOST_ROWS);
}
