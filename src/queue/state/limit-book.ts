import { isKeptBy } from '../limits/account.ts';
import type { OverLimit } from '../limits/scope.ts';
import { countHeld, limitedJobs } from '../store/limits-table.ts';
import type { Ports } from '../store/ports.ts';
import type { WaitingJob } from './job.ts';
import { LimitAccounts, type Limited, weigh } from './limit-accounts.ts';

/** Where a stored job is in line: those of a token, a pool and a priority are let in one after another. */
interface Place {
  token_name: string | null;
  config_id: string;
  priority: number;
}

interface HeldLine {
  place: Place;
  /** How many. */
  jobs: number;
  /** What kept its first job when it was last looked at, at this time and with so much freed; null: it has not been. */
  kept: { over: OverLimit; at: number; freed: number } | null;
}

/** What keeps a line is looked at again after this time, ms, where no more room was told of. */
const LOOK_AGAIN_MS = 1000;

/** The limits of tokens: what each has used, who is let in (LimitAccounts), and who is held back. */
export class LimitBook extends LimitAccounts {
  readonly #ports: Ports;
  /** Requests that are held back, by token and by what they ask for, in their order. */
  readonly #waiting = new Map<string, Map<string, Set<WaitingJob>>>();
  /** Stored jobs that are held back, by their line. */
  readonly #held = new Map<string, HeldLine>();
  /** The one stored job of a line that waits for a slot. */
  readonly #next = new Map<string, string>();
  /** Epoch ms at which the next one that is held back may be let in; null: something has to end first. */
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

  /** Whether anything is held back by its token's limits. */
  get hasHeld(): boolean {
    return this.#waiting.size > 0 || this.#held.size > 0;
  }

  /** A request waits for its minute. */
  hold(job: WaitingJob): void {
    const models = this.#waiting.get(job.token_name!) ?? new Map<string, Set<WaitingJob>>();
    this.#waiting.set(job.token_name!, models);
    models.set(lineNameOf(job), (models.get(lineNameOf(job)) ?? new Set()).add(job));
  }

  /** It is let in, or waits no more. */
  unhold(job: WaitingJob): void {
    const models = this.#waiting.get(job.token_name ?? '');
    const jobs = models?.get(lineNameOf(job));
    if (!models || !jobs?.delete(job) || jobs.size > 0) return;
    models.delete(lineNameOf(job));
    if (models.size === 0) this.#waiting.delete(job.token_name!);
  }

  /** Requests that are held back: by token the lines of those under the same limits, in order. */
  waiting(): ReadonlySet<WaitingJob>[][] {
    return [...this.#waiting.values()].map((models) =>
      [...models.values()].sort((one, other) => (goesBefore(firstOf(one), firstOf(other)) ? -1 : 1)),
    );
  }

  /** What keeps those that wait already, and this one with them; null: it may be let in before them. */
  keptWith(job: WaitingJob): OverLimit | null {
    for (const jobs of this.#waiting.get(job.token_name ?? '')?.values() ?? []) {
      const { held, priority } = firstOf(jobs);
      if (held !== null && priority >= job.priority && this.isKeptBy(held, job)) return held;
    }
    return null;
  }

  /** Whether what keeps another one keeps this one too. What was let in before the queue started is kept by nothing. */
  isKeptBy(over: OverLimit, job: WaitingJob): boolean {
    return this.letInBefore(job) === null && isKeptBy(over, weigh(job).names);
  }

  /** Whether a stored job must be held back: one of its line waits for a slot, or is held back too. */
  mustHold(job: Place): boolean {
    if (this.freedOf(job) === null) return false;
    return this.#next.has(lineOf(job)) || this.#held.has(lineOf(job));
  }

  /** A stored job came to be held back, or waits for a slot or ended. */
  holdStored(job: Place): void {
    this.#hold(job, 1);
  }

  unholdStored(job: Place): void {
    this.#hold(job, -1);
  }

  /** A stored job waits for a slot, and is let in when it is given one. */
  waitsForSlot(job: Place & Limited): void {
    if (job.cost !== null && this.freedOf(job) !== null) this.#next.set(lineOf(job), job.id);
  }

  /** It waits for no slot any more. */
  leftLine(job: Place & Pick<Limited, 'id'>): void {
    if (this.#next.get(lineOf(job)) === job.id) this.#next.delete(lineOf(job));
  }

  /** Lines that hold jobs back and have none that waits for a slot; the highest priority first. */
  openLines(): HeldLine[] {
    const open: HeldLine[] = [];
    for (const [line, held] of this.#held) if (!this.#next.has(line)) open.push(held);
    return open.length < 2 ? open : open.sort((one, other) => other.place.priority - one.place.priority);
  }

  /** What keeps the first job of a line, as it was found before; null: it has to be looked at. */
  stillKept({ place, kept }: HeldLine): OverLimit | null {
    if (kept === null || this.freedOf(place) !== kept.freed) return null;
    const until = Math.min(kept.at + LOOK_AGAIN_MS, kept.over.opens_at ?? Number.POSITIVE_INFINITY);
    return this.#ports.now() < until ? kept.over : null;
  }

  /**
   * Returns the limit that keeps the first stored job of the job's line; null: a job of the line waits for a slot, or
   * the line has to be looked at.
   */
  heldBy(job: Place): OverLimit | null {
    return this.#held.get(lineOf(job))?.kept?.over ?? null;
  }

  /** What keeps it was found. */
  keep(held: HeldLine, over: OverLimit): void {
    held.kept = { over, at: this.#ports.now(), freed: this.freedOf(held.place) ?? 0 };
  }

  /** Stored jobs of a pool and a priority that limits hold back. */
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
    // Another one may be the first.
    if (jobs > 0) this.#held.set(line, { place, jobs, kept: null });
    else this.#held.delete(line);
  }
}

/** JSON: names may have any characters in them. */
function lineOf({ token_name, config_id, priority }: Place): string {
  return JSON.stringify([token_name, config_id, priority]);
}

/** Those of one priority under the same limits. */
function lineNameOf({ cost, config_id, priority }: WaitingJob): string {
  return JSON.stringify([cost?.model ?? '', config_id, priority]);
}

function goesBefore(one: WaitingJob, other: WaitingJob): boolean {
  return one.priority === other.priority
    ? one.submitted_at <= other.submitted_at
    : one.priority > other.priority;
}

/** No line is empty. */
export function firstOf(jobs: ReadonlySet<WaitingJob>): WaitingJob {
  const [first] = jobs;
  return first!;
}
