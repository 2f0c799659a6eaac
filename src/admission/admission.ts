import type { Sql } from '../durable/ports.ts';
import type { Waiting } from '../protocol/index.ts';
import { isForbiddenBy } from './account.ts';
import type { Counted, Used } from './accounts.ts';
import { Book } from './book.ts';
import type { EarlierRequests } from './earlier-requests.ts';
import { firstOf, HeldJobs, type Line } from './held.ts';
import { type Job, type StoredJob, type WaitingJob, weigh } from './job.ts';
import { type Refusal, rateLimitHeaders, refusalOf, waitOf } from './refusal.ts';
import type { OverLimit } from './scope.ts';

/** The decision about a job that asks to go on: it runs when there is a slot, it waits for its limits, or it ends. */
export type Verdict = { kind: 'admitted' } | { kind: 'held' } | Refusal;

const ADMITTED: Verdict = { kind: 'admitted' };
const HELD: Verdict = { kind: 'held' };

/** The parts of the queue that admission control needs. */
export interface AdmissionPorts {
  sql: Sql;
  now(): number;
  /** Returns what is written of the usage of a token or a tenant since a time, epoch ms, at which a day begins. */
  usedSince(whose: Counted, from: number): Used[];
  /** Counts the stored jobs that are held back, when the queue starts. */
  countHeld(): (Line & { n: number })[];
  /** Returns, when the queue starts, the stored jobs with a cost that run or wait for a slot for the first time. */
  unsettled(): (Job & { runs: 0 | 1 })[];
}

/** The queue's actions for jobs that were held back. */
export interface HeldBy<W, S> {
  /** Lets an admitted request wait for a slot. */
  admitted(job: W): void;
  /** Ends a request that its limits hold back for longer than it may wait. */
  refused(job: W, refusal: Refusal): void;
  /** Returns the oldest stored job of a line that is held back. */
  oldest(line: Line): S;
  /** Lets a stored job wait for a slot that was held back. */
  ready(job: S): void;
}

/**
 * Decides which jobs may run by the limits of their tokens and tenants, and follows them from one transition to the next:
 * `admit` before a job runs, `entered` when it begins to wait, `left` when it is released or over. A request is
 * admitted when it arrives, a stored job when a worker is to get it: only then does it take from its limits, so that one
 * that waits never holds up others of its token.
 */
export class Admission<W extends WaitingJob> {
  readonly #now: () => number;
  readonly #held: HeldJobs<W>;
  #opensAt: number | null = null;
  /** The book of what admitted jobs hold; the code that counts usage reports to it. */
  readonly book: Book;

  constructor({ sql, now, usedSince, countHeld, unsettled }: AdmissionPorts) {
    this.#now = now;
    this.book = new Book(sql, now, usedSince, (tokenName) => this.#held.ofToken(tokenName));
    this.#held = new HeldJobs(now, (job) => this.book.freedOf(job));
    if (this.book.isEmpty) return;
    for (const { n, ...line } of countHeld()) this.#held.count(line, n);
    for (const job of unsettled()) {
      if (job.runs) this.book.enter(job, null, true);
      else this.#held.setNext(job);
    }
  }

  /** The requests from before a restart of the queue; the code that registers their workers reports to it. */
  get earlier(): EarlierRequests {
    return this.book.earlier;
  }

  /**
   * Decides whether a job goes on: a request that has arrived, or a stored job that a worker is to get. Requests that
   * are held back already go first.
   */
  admit(job: W | StoredJob): Verdict {
    if (job.mode === 'stored') return this.#admitStored(job);
    const before = this.#wasAdmitted(job) ? null : this.#held.before(job);
    const over = before ?? this.#admitRequest(job);
    if (over === null) return ADMITTED;
    if (!this.#mayWait(job, over)) return this.#refusal(job, over);
    job.held = over;
    return HELD;
  }

  /** Re-admits a job that was admitted before, whatever the limits are now, without counting it again. */
  readmit(job: W | StoredJob): Verdict {
    if (job.mode === 'stored') this.#leaveLine(job);
    else job.admitted_at ??= this.book.admittedAt(job);
    this.book.enter(job, job.mode === 'stored' ? null : job.admitted_at, true);
    return ADMITTED;
  }

  /** Says whether a stored job has to be held back, as it would begin to wait now. */
  holds(job: Job): boolean {
    return this.#held.isBehind(job) || this.book.over(job) !== null;
  }

  /** Notes that a job waits: for a slot, or for its limits if it is held back. */
  entered(job: W | StoredJob): void {
    if (job.mode === 'waiting') {
      if (job.held !== null) this.#held.add(job, this.#wasAdmitted(job));
      return;
    }
    if (job.is_held === 0) return this.#held.setNext(job);
    this.#held.leave(job);
    this.#held.count(job, 1);
  }

  /** Frees what a job held that is released or over, whether it ran or still waited. */
  left(job: W | StoredJob): void {
    if (job.mode === 'waiting') this.#held.delete(job);
    else this.#leaveLine(job);
    this.book.end(job.id);
    this.earlier.delete(job.id);
  }

  /** Says whether anything is held back. */
  get holdsAny(): boolean {
    return !this.#held.isEmpty;
  }

  /** Epoch ms at which the next held request or job may be admitted; null if something has to end first. */
  get opensAt(): number | null {
    return this.#held.isEmpty ? null : this.#opensAt;
  }

  /**
   * Admits held jobs that now have room. Of each line of stored jobs one at a time may wait for a slot; another follows
   * once it has found one.
   * @returns whether there is anything new for a dispatch pass
   */
  admitHeld<S extends StoredJob>(by: HeldBy<W, S>): boolean {
    const { unknownUntil } = this.earlier;
    if (unknownUntil !== null) {
      // Once this time is over, the next tick ends the wait, or prolongs it if the queue stood still.
      this.#opensAt = unknownUntil > this.#now() ? unknownUntil : null;
      return false;
    }
    const opens: (number | null)[] = [];
    let isOneIn = false;
    for (const lines of this.#held.requests()) {
      const first = lines.map(firstOf);
      opens.push(...this.#admitRequests(lines, by));
      isOneIn ||= first.some(({ held }) => held === null);
    }
    for (const held of this.#held.openLines()) {
      const known = this.#held.stillOver(held);
      const over = known ?? this.#admitOldest(held.line, by);
      if (over === null) isOneIn = true;
      else opens.push(over.opens_at);
      if (over !== null && known === null) this.#held.found(held, over);
    }
    this.#opensAt = opens.reduce(
      (one, other) => (one === null || (other !== null && other < one) ? other : one),
      null,
    );
    return isOneIn;
  }

  /** Words why a held request is refused, since it may wait no longer. */
  refusal(job: W): Refusal {
    return this.#refusal(job, job.held!);
  }

  /** Returns the headers that tell a job's caller how far it is from its limits; null if its token has none. */
  headersOf(job: Job): Record<string, string> | null {
    return job.extras.cost === undefined ? null : rateLimitHeaders(this.book.ratesOf(job), this.#now());
  }

  /** Returns how many stored jobs of a pool and a priority are held back. */
  heldOfPool(configId: string, priority: number): number {
    return this.#held.ofPool(configId, priority);
  }

  /** Returns what a stored job waits for that is held back. */
  waitOf(job: Job): Waiting {
    return waitOf(job.token_name, this.#held.overOf(job));
  }

  #admitStored(job: StoredJob): Verdict {
    if (this.book.over(job) !== null) return HELD;
    this.#held.leave(job);
    this.book.enter(job, null, job.leased_at !== null);
    return ADMITTED;
  }

  /** Admits a request if no limit forbids it. @returns the limit that does, or null */
  #admitRequest(job: W): OverLimit | null {
    const wasAdmitted = this.#wasAdmitted(job);
    const over = this.book.over(job, wasAdmitted);
    if (over !== null) return over;
    job.admitted_at = this.book.admittedAt(job);
    this.book.enter(job, job.admitted_at, wasAdmitted);
    return null;
  }

  /**
   * Admits held requests of one token. A request that one limit holds does not delay a request that only another limit
   * would hold.
   * @param lines the requests by model, the oldest first
   * @returns the epoch ms at which each limit that still holds requests opens; null for one that time alone does not open
   */
  #admitRequests(
    lines: readonly ReadonlySet<W>[],
    by: Pick<HeldBy<W, never>, 'admitted' | 'refused'>,
  ): (number | null)[] {
    const found: OverLimit[] = [];
    for (const jobs of lines) {
      let isOver = false;
      for (const job of jobs) {
        // A request held since the queue started is asked here for the first time whether it may wait.
        if (isOver && job.held?.limit !== 'unknown') break;
        const wasAdmitted = this.#wasAdmitted(job);
        const before = found.find((one) => !wasAdmitted && isForbiddenBy(one, weigh(job).names));
        const over = before ?? this.#admitRequest(job);
        if (over === null) {
          this.#held.delete(job);
          by.admitted(job);
        } else if (!this.#mayWait(job, over)) by.refused(job, this.#refusal(job, over));
        else {
          job.held = over;
          found.push(over);
          isOver = true;
        }
      }
    }
    return found.map(({ opens_at }) => opens_at);
  }

  /** Lets the oldest stored job of a line wait for a slot if its limits have room. @returns the limit that forbids it */
  #admitOldest<S extends StoredJob>(line: Line, by: HeldBy<W, S>): OverLimit | null {
    const job = by.oldest(line);
    const over = this.book.over(job);
    if (over !== null) return over;
    this.#held.count(job, -1);
    this.#held.setNext(job);
    by.ready(job);
    return null;
  }

  #leaveLine(job: StoredJob): void {
    if (job.is_held === 1) this.#held.count(job, -1);
    else this.#held.leave(job);
  }

  /**
   * Says whether the caller stated how long it waits, and the limit opens within that time. While the queue does not know
   * what runs, all requests wait: it takes only some seconds and is not the callers' fault. So do those that were
   * admitted before.
   */
  #mayWait(job: W, over: OverLimit): boolean {
    if (over.limit === 'unknown' || this.#wasAdmitted(job)) return true;
    return !job.waits_for_start && (over.opens_at ?? this.#now()) < job.slot_by;
  }

  /** Says whether an earlier attempt, or an earlier process of the queue, had the request admitted. */
  #wasAdmitted(job: W): boolean {
    return job.is_counted || this.earlier.admittedAt(job) !== null;
  }

  #refusal(job: W, over: OverLimit): Refusal {
    return refusalOf(job.token_name, over, !job.waits_for_start, this.book.ratesOf(job), this.#now());
  }
}
