import type { PlatformPost } from '../../src/worker/runpod/platform.ts';
import type { Violation } from '../simulation/oracle.ts';
import { type WorldJob, wholeOf } from './job.ts';

/** How long a worker's engine may go on with a job that it was told to stop, ms. */
const STOPS_WITHIN_MS = 1000;
/** After 429 a worker asks for no jobs for so long, ms. */
const PAUSES_FOR_MS = 5000;

export interface EngineRequest {
  jobId: string;
  /** It has ended, or its worker has left it. */
  isOver(): boolean;
}

/** One process of the worker, as the platform and its engine see it. */
export class Seen {
  readonly name: string;
  readonly #promises: Promises;
  /** Jobs that have reached it, whose end it has not been told was taken or refused. */
  readonly #holds = new Set<string>();
  /** Ends that it has posted, and those that it was told were taken. */
  readonly #ending = new Set<string>();
  readonly #answered = new Set<string>();
  /** Jobs of which a post is under way. */
  readonly #open = new Set<string>();
  /** When it was told to stop a job, ms. */
  readonly #stopped = new Map<string, number>();
  /** What its engine was asked. */
  readonly #asked: EngineRequest[] = [];
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #isEnding = false;

  constructor(name: string, promises: Promises) {
    this.name = name;
    this.#promises = promises;
  }

  /** An answer with jobs has arrived. */
  given(ids: string[]): void {
    for (const id of ids) {
      this.#holds.add(id);
      for (const past of [this.#stopped, this.#ending, this.#answered]) past.delete(id);
    }
  }

  asksForJobs(nowMs: number): void {
    if (nowMs - this.#refusedAtMs < PAUSES_FOR_MS) this.#violated('asks slowly', 'asks soon after 429');
  }

  takeAnswered(status: number | null, nowMs: number): void {
    if (status === 429) this.#refusedAtMs = nowMs;
  }

  /** An answer that names jobs to stop has arrived. */
  toldToStop(ids: string[], nowMs: number): void {
    for (const id of ids.filter((one) => this.#holds.has(one))) {
      this.#stopped.set(id, nowMs);
      this.#holds.delete(id);
    }
  }

  posts({ to, jobId }: PlatformPost): void {
    const what = `posts to ${to} of ${jobId}`;
    if (this.#stopped.has(jobId)) this.#violated('stops', `${what}, which it was to stop`);
    if (this.#answered.has(jobId)) this.#violated('answers once', `${what}, whose end was taken`);
    if (this.#open.has(jobId)) this.#violated('keeps the order', `${what} beside another post of it`);
    if (to === 'stream' && this.#ending.has(jobId))
      this.#violated('keeps the order', `${what} after its end`);
    this.#open.add(jobId);
    if (to === 'done') this.#ending.add(jobId);
  }

  /** What became of a post, as it was told. @param isFinal it will not be taken later either */
  postAnswered({ to, jobId }: PlatformPost, isTaken: boolean, isFinal: boolean): void {
    this.#open.delete(jobId);
    if (to !== 'done') return;
    if (isTaken) this.#answered.add(jobId);
    if (isTaken || isFinal) this.#holds.delete(jobId);
  }

  pings(ids: readonly string[]): void {
    if (this.#isEnding) return;
    const missing = [...this.#holds].find((id) => !ids.includes(id));
    if (missing !== undefined) this.#violated('forgets nothing', `does not name ${missing} in a ping`);
  }

  asksEngine(request: EngineRequest, slots: number): void {
    this.#asked.push(request);
    const running = this.#asked.filter(({ isOver }) => !isOver());
    if (running.length > slots) {
      this.#violated('keeps to its slots', `runs ${running.length} jobs in ${slots} slots`);
    }
    if (running.filter(({ jobId }) => jobId === request.jobId).length > 1) {
      this.#violated('answers once', `runs ${request.jobId} twice at a time`);
    }
  }

  /** The engine generates for a job. */
  engineWorks({ jobId }: EngineRequest, nowMs: number): void {
    const toldAtMs = this.#stopped.get(jobId);
    if (toldAtMs !== undefined && nowMs - toldAtMs > STOPS_WITHIN_MS) {
      this.#violated('stops', `its engine goes on with ${jobId}, which it was to stop`);
    }
  }

  /** SIGTERM. */
  ends(): void {
    this.#isEnding = true;
  }

  /** @param hadTime its grace was not over */
  hasEnded(hadTime: boolean): void {
    const [left] = this.#holds;
    if (hadTime && left !== undefined) {
      this.#violated('forgets nothing', `ended before its grace did and has not answered ${left}`);
    }
  }

  #violated(promise: string, message: string): void {
    this.#promises.violated(promise, `${this.name} ${message}`);
  }
}

/** What a worker promises in RunPod's endpoint, and whether it has kept it. Nothing here decides what happens. */
export class Promises {
  violation: Violation | null = null;

  /** The first one counts. */
  violated(promise: string, message: string): void {
    this.violation ??= { promise, message };
  }

  /** At the end of the run, when the platform has been calm for long. */
  judge({ id, input, status, gives, pieces, output, error }: WorldJob): void {
    if (status !== 'done' && status !== 'stopped') {
      return this.violated('answers every job', `${id} is ${status} after ${gives} gives`);
    }
    const whole = wholeOf(id, (input as { stream: boolean }).stream);
    // A piece may be missing where the platform did not take it, but none is out of its order or there twice.
    let from = 0;
    for (const piece of pieces.map(textOf)) {
      const at = whole.indexOf(piece, from);
      if (at < from) this.violated('keeps the order', `${id} has a piece out of order: ${piece}`);
      from = at + piece.length;
    }
    const isWhole = output !== null && output.map(textOf).join('') === whole;
    if (output !== null && !isWhole) {
      this.violated('keeps outputs whole', `${id}: ${JSON.stringify(output)}`);
    } else if (status === 'done' && output === null && typeof error !== 'string') {
      this.violated('answers every job', `${id} ended with neither an output nor a text of what went wrong`);
    }
  }
}

function textOf(output: unknown): string {
  return typeof output === 'string' ? output : (output as { choices: [{ text: string }] }).choices[0].text;
}
