import { USAGE_AMOUNTS, USAGE_KEYS, type UsageAmounts, type UsageKey } from '../rpc.ts';
import type { Ports } from '../store/ports.ts';
import { addUsage, hourOf, insertCounted, rollUpUsage, wasCounted } from '../store/usage-table.ts';
import type { Counts } from './counts.ts';

/** How long usage that no commit takes along waits for others, ms. */
const WRITTEN_WITHIN_MS = 1000;
/** The same after it could not be written, and how many attempts may wait so; more are not remembered. */
const AGAIN_AFTER_MS = 30_000;
const MOST_UNWRITTEN = 10_000;
/** Models told apart of one config, in one life of the object: some engines repeat whatever name they are asked for. */
const MODELS_A_CONFIG = 64;
const OTHER_MODEL = 'other';
/** Requests that ended and may be asked for again, and attempts given up whose workers may be heard again. */
const MOST_REMEMBERED = 1000;

const DAY_MS = 24 * 3600 * 1000;

export interface UsageEntry {
  key: UsageKey;
  amounts: Partial<UsageAmounts>;
}

/**
 * What is used, each thing once. What a stored job used is written in the commit that ends the job. A job in memory has
 * no commit: its usage is gathered and written with that of others, once a second, together with the fence tokens of the
 * attempts it came from, and only then is the worker told that the queue has its settlement. A worker that was not told
 * says it again, also to the queue's next process, which finds the fence token or does not.
 */
export class UsageBook {
  readonly #ports: Ports;
  readonly #counts: Counts;
  readonly #models = new Map<string, Set<string>>();
  /** Not written yet, by hour and key. */
  readonly #gathered = new Map<string, { atMs: number; key: UsageKey; amounts: UsageAmounts }>();
  /** Attempts that it came from. */
  readonly #fences = new Set<number>();
  #effects: (() => void)[] = [];
  #dueAt: number | null = null;
  /** Attempts that were given up while they ran, by fence token: what they bring still is wasted. */
  readonly #givenUp = new Map<number, UsageKey>();
  /** By job: what a request was counted as that has ended. */
  readonly #ended = new Map<string, { atMs: number; entry: UsageEntry }>();
  /** Days since 1970. */
  #rolledUpOn = -1;
  /** What was gathered holds usage of stored jobs. */
  #hasStored = false;
  #isFailing = false;

  constructor(ports: Ports, counts: Counts) {
    this.#ports = ports;
    this.#counts = counts;
  }

  /** Epoch ms at which `write` is due; null: nothing waits. */
  get dueAt(): number | null {
    return this.#dueAt;
  }

  /** In the commit of the verb at work, which happens once: `beforeCommit` writes what all its verbs used. */
  add({ key, amounts }: UsageEntry): void {
    this.#gather(this.#ports.now(), { key: this.#bounded(key), amounts });
    this.#counts.used(key.config_id, amounts, true);
    this.#hasStored = true;
  }

  /** Part of the commit that is about to be made. */
  beforeCommit(): void {
    if (this.#hasStored) this.write();
  }

  /** For a verb without a commit. @param fence of the attempt; null: it was given to nobody */
  gather({ key, amounts }: UsageEntry, fence: number | null): void {
    this.#gather(this.#ports.now(), { key: this.#bounded(key), amounts });
    this.#counts.used(key.config_id, amounts, false);
    if (fence !== null) this.#fences.add(fence);
  }

  /** Whether what this attempt used is counted. Asked only where nothing else tells that it cannot be. */
  isCounted(fence: number): boolean {
    return this.#fences.has(fence) || wasCounted(this.#ports.sql, fence);
  }

  /** An attempt at a job in memory is over for all but its worker: whatever it settles it settled for nobody. */
  giveUp(fence: number, key: UsageKey): void {
    this.#dueAt ??= this.#ports.now() + WRITTEN_WITHIN_MS;
    this.#fences.add(fence);
    remember(this.#givenUp, fence, key);
  }

  /** Whom a given-up attempt is counted for, which is asked once; null: it was not given up, or long ago. */
  takeGivenUp(fence: number): UsageKey | null {
    const key = this.#givenUp.get(fence) ?? null;
    this.#givenUp.delete(fence);
    return key;
  }

  /** A request ended, and was counted as this; its gateway may ask for it again: then nobody got that. */
  ended(jobId: string, entry: UsageEntry): void {
    remember(this.#ended, jobId, { atMs: this.#ports.now(), entry });
  }

  /** Whether a request was counted that may be asked for again. */
  hasEnded(jobId: string): boolean {
    return this.#ended.has(jobId);
  }

  /** A request is there, maybe one that was thought to have ended. */
  asked(jobId: string): void {
    const ended = this.#ended.get(jobId);
    if (ended === undefined) return;
    this.#ended.delete(jobId);
    const { key, amounts } = ended.entry;
    const takenBack = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, -(amounts[name] ?? 0)]));
    const wasted = (amounts.input ?? 0) + (amounts.output ?? 0);
    this.#gather(ended.atMs, { key: this.#bounded(key), amounts: { ...takenBack, wasted } });
  }

  /** Runs when what the attempt used is on disk; at once where it is, or where there is nothing of it. */
  whenWritten(fence: number, effect: () => void): void {
    if (this.#fences.has(fence)) this.#effects.push(effect);
    else effect();
  }

  /** Writes what was gathered; to be called where there is a commit. Never throws. */
  write(): void {
    if (this.#dueAt === null) return;
    this.#hasStored = false;
    const { sql, undoable, log, now } = this.#ports;
    const problem = undoable(() => {
      this.#rollUp(now());
      for (const { atMs, key, amounts } of this.#gathered.values()) addUsage(sql, atMs, key, amounts);
      if (this.#fences.size > 0) insertCounted(sql, [...this.#fences]);
    });
    if (problem !== null) {
      if (!this.#isFailing) log('error', 'usage cannot be written; it is kept in memory', { error: problem });
      this.#isFailing = true;
      this.#dueAt = now() + AGAIN_AFTER_MS;
      if (this.#fences.size > MOST_UNWRITTEN) this.#forgetFences();
      return;
    }
    this.#isFailing = false;
    this.#gathered.clear();
    this.#dueAt = null;
    this.#forgetFences();
  }

  /** Who waits for their being written is told. */
  #forgetFences(): void {
    const effects = this.#effects;
    this.#effects = [];
    this.#fences.clear();
    for (const effect of effects) effect();
  }

  #gather(atMs: number, { key, amounts }: UsageEntry): void {
    this.#dueAt ??= this.#ports.now() + WRITTEN_WITHIN_MS;
    const id = `${hourOf(atMs)}\n${USAGE_KEYS.map((name) => key[name]).join('\n')}`;
    const sum = this.#gathered.get(id)?.amounts ?? { ...NOTHING };
    for (const name of USAGE_AMOUNTS) sum[name] += amounts[name] ?? 0;
    this.#gathered.set(id, { atMs, key, amounts: sum });
  }

  #bounded(key: UsageKey): UsageKey {
    const { config_id, model } = key;
    const models = this.#models.get(config_id) ?? new Set();
    this.#models.set(config_id, models);
    if (models.has(model) || models.size < MODELS_A_CONFIG) {
      models.add(model);
      return key;
    }
    return { ...key, model: OTHER_MODEL };
  }

  #rollUp(now: number): void {
    const today = Math.floor(now / DAY_MS);
    if (today === this.#rolledUpOn) return;
    rollUpUsage(this.#ports.sql, now);
    this.#rolledUpOn = today;
  }
}

function remember<K, V>(map: Map<K, V>, key: K, value: V): void {
  map.set(key, value);
  if (map.size <= MOST_REMEMBERED) return;
  const [oldest] = map.keys();
  map.delete(oldest!);
}

const NOTHING = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, 0])) as UsageAmounts;
