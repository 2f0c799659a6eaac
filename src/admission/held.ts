import { isForbiddenBy } from './account.ts';
import { type Job, type WaitingJob, weigh } from './job.ts';
import type { OverLimit } from './scope.ts';

/** A stored job's line: jobs of one token, pool and priority are admitted one after another. */
export type Line = Pick<Job, 'token_name' | 'config_id' | 'priority'>;

/** A line with stored jobs that are held back. */
export interface HeldLine {
  line: Line;
  /** The number of jobs of the line that are held back. */
  jobs: number;
  /** The limit found to hold the first job back, when (epoch ms) and at which `freed`; null if not looked for yet. */
  found: { over: OverLimit; at: number; freed: number } | null;
}

/** Re-checks a held line after this many ms even if nothing freed capacity. */
const LOOK_AGAIN_MS = 1000;

/**
 * The jobs that limits hold back: requests in their order, and lines of stored jobs, which are counted. Of each line one
 * stored job at a time waits for a slot; the others are held back until it has found one.
 */
export class HeldJobs<W extends WaitingJob> {
  readonly #now: () => number;
  readonly #freedOf: (job: Pick<Job, 'token_name'>) => number | null;
  /** Requests that are held back, by token and by line, in their order. */
  readonly #requests = new Map<string, Map<string, Set<W>>>();
  /** Lines with stored jobs that are held back, by the line's name. */
  readonly #lines = new Map<string, HeldLine>();
  /** The one stored job of each line that waits for a slot, by the line's name. */
  readonly #next = new Map<string, string>();

  /** @param freedOf returns a number that changes when a token's limits may have gained room; null without limits */
  constructor(now: () => number, freedOf: (job: Pick<Job, 'token_name'>) => number | null) {
    this.#now = now;
    this.#freedOf = freedOf;
  }

  get isEmpty(): boolean {
    return this.#requests.size === 0 && this.#lines.size === 0;
  }

  /** Holds a request back. @param isFirst whether it goes before the others of its line */
  add(job: W, isFirst: boolean): void {
    const lines = this.#requests.get(job.token_name!) ?? new Map<string, Set<W>>();
    this.#requests.set(job.token_name!, lines);
    const name = nameOfRequests(job);
    const jobs = lines.get(name) ?? new Set();
    lines.set(name, isFirst ? new Set([job, ...jobs]) : jobs.add(job));
  }

  /** Forgets a request that is admitted or waits no more. */
  delete(job: W): void {
    const lines = this.#requests.get(job.token_name ?? '');
    const jobs = lines?.get(nameOfRequests(job));
    if (!lines || !jobs?.delete(job) || jobs.size > 0) return;
    lines.delete(nameOfRequests(job));
    if (lines.size === 0) this.#requests.delete(job.token_name!);
  }

  /** Returns the held requests: for each token, the lines of requests under the same limits, in order. */
  requests(): ReadonlySet<W>[][] {
    return [...this.#requests.values()].map((lines) =>
      [...lines.values()].sort((one, other) => (goesBefore(firstOf(one), firstOf(other)) ? -1 : 1)),
    );
  }

  /** Returns the limit that holds earlier requests of the token, and so this one, back; null if none goes before it. */
  before(job: W): OverLimit | null {
    for (const jobs of this.#requests.get(job.token_name ?? '')?.values() ?? []) {
      const { held, priority } = firstOf(jobs);
      if (held !== null && priority >= job.priority && isForbiddenBy(held, weigh(job).names)) return held;
    }
    return null;
  }

  /** Says whether a stored job waits behind another one of its line, which waits for a slot or is held back. */
  isBehind(job: Line): boolean {
    if (this.#freedOf(job) === null) return false;
    const name = nameOf(job);
    return this.#next.has(name) || this.#lines.has(name);
  }

  /** Changes how many stored jobs of a line are held back. */
  count({ token_name, config_id, priority }: Line, change: number): void {
    const line = { token_name, config_id, priority };
    const name = nameOf(line);
    const jobs = (this.#lines.get(name)?.jobs ?? 0) + change;
    // Another job may be the line's first now.
    if (jobs > 0) this.#lines.set(name, { line, jobs, found: null });
    else this.#lines.delete(name);
  }

  /** Notes that a stored job is the one of its line that waits for a slot. */
  setNext(job: Job): void {
    if (job.extras.cost !== undefined && this.#freedOf(job) !== null) this.#next.set(nameOf(job), job.id);
  }

  /** Notes that a stored job waits for a slot no more. */
  leave(job: Job): void {
    if (this.#next.size === 0) return;
    const name = nameOf(job);
    if (this.#next.get(name) === job.id) this.#next.delete(name);
  }

  /** Returns the lines that hold jobs back and have none that waits for a slot, highest priority first. */
  openLines(): HeldLine[] {
    const open: HeldLine[] = [];
    for (const [name, held] of this.#lines) if (!this.#next.has(name)) open.push(held);
    return open.length < 2 ? open : open.sort((one, other) => other.line.priority - one.line.priority);
  }

  /** Returns the limit last found to hold the first job of a line back; null if the line has to be looked at. */
  stillOver({ line, found }: HeldLine): OverLimit | null {
    if (found === null || this.#freedOf(line) !== found.freed) return null;
    const until = Math.min(found.at + LOOK_AGAIN_MS, found.over.opens_at ?? Number.POSITIVE_INFINITY);
    return this.#now() < until ? found.over : null;
  }

  /** Records the limit that was found to hold the first job of a line back. */
  found(held: HeldLine, over: OverLimit): void {
    held.found = { over, at: this.#now(), freed: this.#freedOf(held.line) ?? 0 };
  }

  /**
   * Returns the limit that holds back the first stored job of the job's line; null if a job of the line waits for a
   * slot, or the line has to be looked at.
   */
  overOf(job: Line): OverLimit | null {
    return this.#lines.get(nameOf(job))?.found?.over ?? null;
  }

  /** Returns how many stored jobs of a pool and a priority are held back. */
  ofPool(configId: string, priority: number): number {
    let jobs = 0;
    for (const held of this.#lines.values())
      if (held.line.config_id === configId && held.line.priority === priority) jobs += held.jobs;
    return jobs;
  }

  /** Returns how many requests and stored jobs of a token are held back. */
  ofToken(tokenName: string): number {
    let sum = 0;
    for (const jobs of this.#requests.get(tokenName)?.values() ?? []) sum += jobs.size;
    for (const { line, jobs } of this.#lines.values()) if (line.token_name === tokenName) sum += jobs;
    return sum;
  }
}

/** Returns the name of a stored job's line as JSON, since names may have any characters in them. */
function nameOf({ token_name, config_id, priority }: Line): string {
  return JSON.stringify([token_name, config_id, priority]);
}

/** Returns the name of a request's line: requests of one priority under the same limits. */
function nameOfRequests({ extras: { cost }, config_id, priority }: WaitingJob): string {
  return JSON.stringify([cost?.model ?? '', config_id, priority]);
}

function goesBefore(one: WaitingJob, other: WaitingJob): boolean {
  return one.priority === other.priority
    ? one.submitted_at <= other.submitted_at
    : one.priority > other.priority;
}

/** Returns the first job of a line, which is never empty. */
export function firstOf<W>(jobs: ReadonlySet<W>): W {
  const [first] = jobs;
  return first!;
}
