import { isKeptBy } from '../../admission/account.ts';
import type { OverLimit } from '../../admission/scope.ts';
import { limitedJobs } from '../store/limits-table.ts';
import { countHeld } from '../store/pending-table.ts';
import type { Ports } from '../store/ports.ts';
import type { WaitingJob } from './job.ts';
import { LimitAccounts, type Limited, weigh } from './limit-accounts.ts';

/** A stored job's line: jobs of one token, pool and priority are admitted one after another. */
interface Place {
  token_name: string | null;
  config_id: string;
  priority: number;
}

interface HeldLine {
  place: Place;
  /** How many jobs of the line are held back. */
  jobs: number;
  /** The limit found to hold the first job back, when (epoch ms) and at which `freed`; null if not looked for yet. */
  kept: { over: OverLimit; at: number; freed: number } | null;
}

/** Re-checks a held line after this many ms even if nothing freed capacity. */
const LOOK_AGAIN_MS = 1000;

/** The limits of tokens: what each has used, what is admitted (LimitAccounts), and what is held back. */
export class LimitBook extends LimitAccounts {
  readonly #ports: Ports;
  /** Requests that are held back, by token and by line, in their order. */
  readonly #waiting = new Map<string, Map<string, Set<WaitingJob>>>();
  /** Lines with stored jobs that are held back, by the line's name. */
  readonly #held = new Map<string, HeldLine>();
  /** The one stored job of each line that waits for a slot, by the line's name. */
  readonly #next = new Map<string, string>();
  /** Epoch ms at which the next held request or job may be admitted; null if something has to end first. */
  opensAt: number | null = null;

  constructor(ports: Ports) {
    super(ports);
    this.#ports = ports;
    if (!this.hasLimits) return;
    for (const { n, ...place } of countHeld(ports.sql)) this.#hold(place, n);
    for (const job of limitedJobs(ports.sql)) {
      if (job.runs) this.letInAgain(job, null);
      else this.waitsForSlot(job);
    }
  }

  /** Whether the limits of any token hold something back. */
  get hasHeld(): boolean {
    return this.#waiting.size > 0 || this.#held.size > 0;
  }

  /** Holds a request back until its limits have room. */
  hold(job: WaitingJob): void {
    const models = this.#waiting.get(job.token_name!) ?? new Map<string, Set<WaitingJob>>();
    this.#waiting.set(job.token_name!, models);
    models.set(lineNameOf(job), (models.get(lineNameOf(job)) ?? new Set()).add(job));
  }

  /** Forgets a request that is admitted or waits no more. */
  unhold(job: WaitingJob): void {
    const models = this.#waiting.get(job.token_name ?? '');
    const jobs = models?.get(lineNameOf(job));
    if (!models || !jobs?.delete(job) || jobs.size > 0) return;
    models.delete(lineNameOf(job));
    if (models.size === 0) this.#waiting.delete(job.token_name!);
  }

  /** Returns the requests that are held back: for each token, the lines of requests under the same limits, in order. */
  waiting(): ReadonlySet<WaitingJob>[][] {
    return [...this.#waiting.values()].map((models) =>
      [...models.values()].sort((one, other) => (goesBefore(firstOf(one), firstOf(other)) ? -1 : 1)),
    );
  }

  /**
   * Returns the limit that holds earlier requests of the token, and so this one, back; null if it may go before them.
   */
  keptWith(job: WaitingJob): OverLimit | null {
    for (const jobs of this.#waiting.get(job.token_name ?? '')?.values() ?? []) {
      const { held, priority } = firstOf(jobs);
      if (held !== null && priority >= job.priority && this.isKeptBy(held, job)) return held;
    }
    return null;
  }

  /** Whether a limit that holds another request holds this one too, unless it was admitted before the queue started. */
  isKeptBy(over: OverLimit, job: WaitingJob): boolean {
    return this.letInBefore(job) === null && isKeptBy(over, weigh(job).names);
  }

  /** Whether a stored job must be held back, since another one of its line waits for a slot or is held back. */
  mustHold(job: Place): boolean {
    if (this.freedOf(job) === null) return false;
    return this.#next.has(lineOf(job)) || this.#held.has(lineOf(job));
  }

  /** Counts a stored job that is held back from now on. */
  holdStored(job: Place): void {
    this.#hold(job, 1);
  }

  /** Uncounts a stored job that was held back and now waits for a slot or has ended. */
  unholdStored(job: Place): void {
    this.#hold(job, -1);
  }

  /** Notes that a stored job waits for a slot; it is admitted when it is given one. */
  waitsForSlot(job: Place & Limited): void {
    if (job.extras.cost !== undefined && this.freedOf(job) !== null) this.#next.set(lineOf(job), job.id);
  }

  /** Notes that a stored job waits for a slot no more. */
  leftLine(job: Place & Pick<Limited, 'id'>): void {
    if (this.#next.get(lineOf(job)) === job.id) this.#next.delete(lineOf(job));
  }

  /** Returns the lines that hold jobs back and have none that waits for a slot, highest priority first. */
  openLines(): HeldLine[] {
    const open: HeldLine[] = [];
    for (const [line, held] of this.#held) if (!this.#next.has(line)) open.push(held);
    return open.length < 2 ? open : open.sort((one, other) => other.place.priority - one.place.priority);
  }

  /** Returns the limit last found to hold the first job of a line back; null if the line has to be looked at. */
  stillKept({ place, kept }: HeldLine): OverLimit | null {
    if (kept === null || this.freedOf(place) !== kept.freed) return null;
    const until = Math.min(kept.at + LOOK_AGAIN_MS, kept.over.opens_at ?? Number.POSITIVE_INFINITY);
    return this.#ports.now() < until ? kept.over : null;
  }

  /**
   * Returns the limit that holds back the first stored job of the job's line; null if a job of the line waits for a
   * slot, or the line has to be looked at.
   */
  heldBy(job: Place): OverLimit | null {
    return this.#held.get(lineOf(job))?.kept?.over ?? null;
  }

  /** Records the limit that was found to hold the first job of a line back. */
  keep(held: HeldLine, over: OverLimit): void {
    held.kept = { over, at: this.#ports.now(), freed: this.freedOf(held.place) ?? 0 };
  }

  /** Returns how many stored jobs of a pool and a priority the limits hold back. */
  heldOfPool(configId: string, priority: number): number {
    let held = 0;
    for (const { place, jobs } of this.#held.values())
      if (place.config_id === configId && place.priority === priority) held += jobs;
    return held;
  }

  protected override heldOf(tokenName: string): number {
    let held = 0;
    for (const jobs of this.#waiting.get(tokenName)?.values() ?? []) held += jobs.size;
    for (const { place, jobs } of this.#held.values()) if (place.token_name === tokenName) held += jobs;
    return held;
  }

  #hold({ token_name, config_id, priority }: Place, change: number): void {
    const place = { token_name, config_id, priority };
    const line = lineOf(place);
    const jobs = (this.#held.get(line)?.jobs ?? 0) + change;
    // Another job may be the line's first now.
    if (jobs > 0) this.#held.set(line, { place, jobs, kept: null });
    else this.#held.delete(line);
  }
}

/** Returns the name of a stored job's line as JSON, since names may have any characters in them. */
function lineOf({ token_name, config_id, priority }: Place): string {
  return JSON.stringify([token_name, config_id, priority]);
}

/** Returns the name of a request's line: requests of one priority under the same limits. */
function lineNameOf({ extras: { cost }, config_id, priority }: WaitingJob): string {
  return JSON.stringify([cost?.model ?? '', config_id, priority]);
}

function goesBefore(one: WaitingJob, other: WaitingJob): boolean {
  return one.priority === other.priority
    ? one.submitted_at <= other.submitted_at
    : one.priority > other.priority;
}

/** Returns the first job of a line, which is never empty. */
export function firstOf(jobs: ReadonlySet<WaitingJob>): WaitingJob {
  const [first] = jobs;
  return first!;
}
