import type { AttemptError } from '../../src/protocol/index.ts';
import type { Queue } from '../../src/queue/queue.ts';
import type { Sql } from '../../src/queue/store/ports.ts';
import { Blame } from './blame.ts';
import type { JobChange, JobColumns } from './disk.ts';
import { EXCHANGE_MARK, type Exchange, type Saying } from './engine.ts';
import { lastingErrorIn } from './lasting-error.ts';
import type { Link } from './network.ts';
import type { Plan } from './plan.ts';
import { misknownRow } from './rows-check.ts';
import { type StoredPrompt, wrongResult } from './stored-prompt.ts';
import type { Timeline } from './timeline.ts';

/** A promise that was broken. */
export interface Violation {
  promise: string;
  message: string;
}

const SETTLED = new Set(['succeeded', 'failed', 'cancelled', 'expired']);
/** Columns that never change once a job is settled; of its error `lastingError` does not. */
const FINAL = ['state', 'fence_token', 'attempts', 'attempt_errors', 'worker_id', 'result'] as const;

/** A word to the worker takes no longer than this while nothing is wrong, ms. */
const ABORTED_WITHIN_MS = 3000;

/** Sees everything that happens and says when a promise is broken. It decides nothing in the run. */
export class Oracle {
  violation: Violation | null = null;
  readonly exchanges: Exchange[] = [];
  readonly #timeline: Timeline;
  /** Epoch ms by the queue's own wall clock, in which its rows tell times. */
  queueNow: () => number = () => this.#timeline.now;
  /** A job of the same pool that waits, was never released by a worker and has a higher priority; null: none does. */
  waitingBefore: (jobId: string) => string | null = () => null;
  readonly #blame: Blame;
  readonly #cancelled = new Set<string>();
  /** Renewals heard since `listenForRenewals`. */
  renewals = 0;
  #lastFence = 0;
  readonly #baseWorkers: Set<string>;
  readonly #prompts: ReadonlyMap<string, StoredPrompt | null>;
  /** Results of which a worker was told that the queue has them: the job by the fence token. */
  readonly acknowledged = new Map<number, string>();
  /** Results that the queue was given, with the tokens they came with. */
  readonly #results = new Set<string>();
  /** What happened at the queue since its last commit, in order: rows that changed, attempts it heard of. */
  #uncommitted: { at: number; change?: JobChange; heard?: number }[] = [];
  /** Jobs whose rows the work of the queue that is not checked yet has changed. */
  readonly #changedRows = new Set<string>();
  /** Job → the fence token it was sent with last. */
  readonly #newest = new Map<string, number>();
  /** Job → the fence tokens of its dispatches, in order. */
  readonly fences = new Map<string, number[]>();
  /** Job → when nobody wanted it any more: cancelled, expired, or its caller hung up. */
  readonly #unwanted = new Map<string, number>();
  /** Epoch ms until which the queue stood still last. */
  #frozenUntil = 0;

  constructor(plan: Plan, timeline: Timeline) {
    this.#timeline = timeline;
    this.#prompts = new Map(plan.jobs.map(({ id, prompt }) => [id, prompt]));
    this.#baseWorkers = new Set(plan.workers.filter(({ isBase }) => isBase).map(({ name }) => name));
    this.#blame = new Blame(plan, timeline, (promise, message) => this.violated(promise, message));
  }

  /** The first one counts: what follows may follow from it. */
  violated(promise: string, message: string): void {
    this.violation ??= { promise, message };
  }

  exchangeBegun(exchange: Omit<Exchange, 'id' | keyof Saying>, say: (id: number) => Saying): Exchange {
    const id = this.exchanges.length;
    const begun = { ...exchange, id, ...say(id) };
    this.exchanges.push(begun);
    return begun;
  }

  exchangeEnded(exchange: Exchange): void {
    this.#blame.exchangeEnded(exchange);
    // Told to stop, a base worker goes on.
    if (this.#baseWorkers.has(exchange.worker)) return;
    const unwantedAt = this.#unwanted.get(exchange.jobId);
    // A queue that stands still hears of it afterwards.
    const since = unwantedAt === undefined ? undefined : Math.max(unwantedAt, this.#frozenUntil);
    // One in whose place another was sent is told with the next renewal.
    if (this.#newest.get(exchange.jobId) !== exchange.fence) return;
    if (since === undefined || this.#timeline.now - since <= ABORTED_WITHIN_MS) return;
    if (!this.#blame.isSteadySince(exchange.fence, since)) return;
    this.violated(
      'what nobody wants is aborted at once',
      `exchange ${exchange.id} of ${exchange.jobId} ran ${this.#timeline.now - since} ms longer`,
    );
  }

  /** The queue stands still for so long. */
  queueFrozen(ms: number): void {
    this.#frozenUntil = Math.max(this.#frozenUntil, this.#timeline.now + ms);
  }

  /** Its caller hung up. */
  callerGone(jobId: string): void {
    this.#unwanted.set(jobId, this.#timeline.now);
  }

  bootDied(boot: string): void {
    this.#blame.bootDied(boot);
  }

  bootDrains(boot: string): void {
    this.#blame.bootDrains(boot);
  }

  queueEnded(): void {
    this.#blame.queueEnded();
  }

  dialled(link: Link): void {
    this.#blame.dialled(link);
  }

  engineDied(boot: string): void {
    this.#blame.engineDied(boot);
  }

  /** The network or the process of a worker is in trouble for so long. */
  trouble(worker: string, ms: number): void {
    this.#blame.trouble(worker, this.#timeline.now + ms);
  }

  /** Somebody is about to ask for it. */
  cancelAsked(jobId: string): void {
    this.#cancelled.add(jobId);
  }

  /** A frame was written on a connection; it leaves after the commit. */
  frameWritten(text: string, link: Link): void {
    if (!text.startsWith('{"type":"job"')) return;
    const frame = JSON.parse(text) as { job_id: string; fence_token: number };
    this.#blame.dispatched(frame.job_id, frame.fence_token, link);
    const waiting = frame.job_id.startsWith('batch_') ? this.waitingBefore(frame.job_id) : null;
    if (waiting !== null) {
      this.violated('a line lets others go first', `${frame.job_id} was dispatched while ${waiting} waited`);
    }
  }

  /** It left. */
  frameSent(text: string): void {
    if (!text.startsWith('{"type":"job"')) return;
    const { job_id, fence_token } = JSON.parse(text) as { job_id: string; fence_token: number };
    if (fence_token <= this.#lastFence) {
      this.violated(
        'fence tokens only grow',
        `${job_id} was sent with ${fence_token} after a dispatch with ${this.#lastFence}`,
      );
    }
    this.#lastFence = fence_token;
    this.#newest.set(job_id, fence_token);
  }

  /** The queue is given a frame of a worker. */
  frameHeard(text: string, link: Link): void {
    const frame = JSON.parse(text) as {
      type: string;
      job_id?: string;
      fence_token?: number;
      jobs?: { fence_token: number }[];
      error?: string;
      code?: string;
      reason?: string;
    };
    // A worker that fell over what it was given or told; a base worker and the forger name no codes.
    if (frame.type === 'job_error' && frame.code === 'worker_error') {
      this.violated(
        'a worker fails no job by itself',
        `${frame.job_id}#${frame.fence_token}: ${frame.error}`,
      );
    }
    if (frame.type === 'drain' && frame.reason === 'preempted') this.#blame.noticed(link);
    if (frame.type === 'job_result') this.#results.add(`${frame.job_id}#${frame.fence_token}`);
    if (frame.type === 'job_progress') {
      this.#uncommitted.push({ at: this.#timeline.now, heard: frame.fence_token! });
    }
    if (frame.type === 'renew' || frame.type === 'job_progress') this.renewals += 1;
    if (frame.type === 'renew' || frame.type === 'register') {
      for (const job of frame.jobs ?? [])
        this.#uncommitted.push({ at: this.#timeline.now, heard: job.fence_token });
    }
  }

  /** A worker hears of its settlement. */
  ackHeard({
    job_id,
    fence_token,
    outcome,
  }: {
    job_id: string;
    fence_token: number;
    outcome?: string;
  }): void {
    if (outcome === 'accepted' && this.#results.has(`${job_id}#${fence_token}`))
      this.acknowledged.set(fence_token, job_id);
  }

  /** A statement changed a job's row. */
  rowChanged(change: JobChange): void {
    this.#changedRows.add(change.id);
    this.#uncommitted.push({ at: this.#timeline.now, change });
  }

  /** After every piece of work. */
  rowsKnown(queue: Queue, disk: Sql): void {
    const misknown = misknownRow(queue, disk, this.#changedRows);
    this.#changedRows.clear();
    if (misknown !== null) this.violated('a queue knows its rows', misknown);
  }

  /** What was done since the last commit was never done. */
  rolledBack(): void {
    this.#uncommitted = [];
    this.#changedRows.clear();
  }

  committed(): void {
    const done = this.#uncommitted;
    this.#uncommitted = [];
    for (const { at, change, heard } of done) {
      if (heard !== undefined) this.#blame.heard(heard, at);
      if (change) this.#changed(change, at);
    }
  }

  exchangeOf(text: string): Exchange | null {
    const mark = EXCHANGE_MARK.exec(text);
    return mark ? (this.exchanges[Number(mark[1])] ?? null) : null;
  }

  #changed({ id, before, after, deleted }: JobChange, at: number): void {
    if (deleted) {
      if (!SETTLED.has(after.state))
        this.violated('an accepted job is settled', `${id} was deleted ${after.state}`);
      return;
    }
    if (!before) return;
    if (SETTLED.has(before.state)) {
      const isOtherError = lastingErrorIn(before) !== lastingErrorIn(after);
      const changed = FINAL.find((column) => before[column] !== after[column]) ?? (isOtherError && 'error');
      if (changed) {
        this.violated(
          'a job settles once',
          `${id} was ${before.state}, then ${changed} became ${after[changed]} (was ${before[changed]})`,
        );
      }
      return;
    }
    if (after.fence_token < before.fence_token) {
      this.violated('fence tokens only grow', `${id}: ${before.fence_token} → ${after.fence_token}`);
    }
    if (after.state === 'leased' && after.fence_token !== before.fence_token) {
      const fences = this.fences.get(id) ?? [];
      fences.push(after.fence_token);
      this.fences.set(id, fences);
    }
    this.#attempts(id, before, after, at);
    if (after.state === 'succeeded') this.#succeeded(id, after);
    if (after.state === 'failed') this.#failed(id, after);
    if (after.state === 'cancelled' || after.state === 'expired') this.#unwanted.set(id, this.#timeline.now);
    if (after.state === 'cancelled' && !this.#cancelled.has(id)) {
      this.violated('only its owner cancels a job', id);
    }
    if (after.state === 'expired' && !((after.deadline_at ?? Number.POSITIVE_INFINITY) <= this.queueNow())) {
      this.violated('a job expires at its deadline', id);
    }
  }

  #attempts(id: string, before: JobColumns, after: JobColumns, at: number): void {
    const errors = JSON.parse(after.attempt_errors) as AttemptError[];
    if (after.attempts === before.attempts && errors.length === after.attempts) return;
    const charged = errors.at(-1);
    if (after.attempts !== before.attempts + 1 || errors.length !== after.attempts || !charged) {
      this.violated(
        'an attempt is charged once',
        `${id}: attempts ${before.attempts} → ${after.attempts}, with ${errors.length} errors in its record`,
      );
      return;
    }
    if (errors.some((error) => error !== charged && error.fence_token === charged.fence_token)) {
      this.violated('an attempt is charged once', `${id}: attempt #${charged.fence_token} is there twice`);
    }
    if (after.attempts > after.max_attempts) {
      this.violated('attempts are limited', `${id}: ${after.attempts} of ${after.max_attempts}`);
    }
    const isOver = after.deadline_at !== null && this.queueNow() >= after.deadline_at;
    this.#blame.charged(id, charged, isOver, at);
  }

  #succeeded(id: string, after: JobColumns): void {
    const exchange = this.exchangeOf(after.result ?? '');
    const isBase = this.#baseWorkers.has(after.worker_id ?? '');
    // Given the same job again, a base worker sends what it finishes first, with the newer token.
    const isFenced = isBase
      ? this.#results.has(`${id}#${after.fence_token}`)
      : exchange?.fence === after.fence_token;
    if (exchange?.jobId !== id || !isFenced || exchange.worker !== after.worker_id) {
      this.violated(
        'a result is what the engine said in that attempt',
        `${id}#${after.fence_token} by ${after.worker_id} has the result of ${exchange ? `${exchange.jobId}#${exchange.fence} by ${exchange.worker}` : 'nobody'}`,
      );
    } else if (isBase && exchange.ending === 'aborted_by_engine') {
      // A base worker does not look at why an answer ended.
    } else if (exchange.state !== 'whole' || exchange.ending !== 'whole' || exchange.status >= 400) {
      this.violated(
        'a result is whole',
        `${id}#${after.fence_token}: exchange ${exchange.id} is ${exchange.state}, ${exchange.ending}, ${exchange.status}`,
      );
    }
    const prompt = this.#prompts.get(id);
    const wrong = prompt ? wrongResult(prompt, after.result ?? '') : null;
    if (wrong !== null) this.violated('a result reads as if nothing had cut it', `${id}: ${wrong}`);
  }

  #failed(id: string, after: JobColumns): void {
    const last = (JSON.parse(after.attempt_errors) as AttemptError[]).at(-1);
    if (!last || (last.retryable && after.attempts < after.max_attempts)) {
      this.violated(
        'a job fails when its attempts are spent',
        `${id} failed after ${after.attempts} of ${after.max_attempts}: ${after.error}`,
      );
    }
  }
}
