import type { ClientAnswer, ClientFrame, JobView, SettledJob, SubmissionError } from '../protocol/index.ts';
import { bounds, fitsUtf8, isSettled, timeOrderedId, writeJson } from '../protocol/index.ts';
import { type ClientOptions, JobClient, type NewJob, QueueError } from './client.ts';
import { type JobEnd, resultsOf } from './job-results.ts';
import { KeptSocket } from './kept-socket.ts';

export interface ConnectionOptions extends ClientOptions {
  /** The most jobs that are submitted and not settled at a time; left out: 256. Further jobs wait in this program. */
  inFlight?: number;
  /** The time between pings, s; left out: 15. A queue that is silent for two of them is gone. */
  pingSeconds?: number;
}

const IN_FLIGHT = 256;
/** The approximate number of characters in a frame of submissions. */
const FRAME_CHARACTERS = 1_000_000;
/**
 * After the queue said that it is full, a job is submitted again after this pause, ms, unless the queue named another.
 */
const FULL_PAUSE_MS = 1000;

/**
 * The states of a job that has not ended; a job that has ended is forgotten.
 *
 * - `waiting`   to be submitted, on this connection or the next. → `sent`
 * - `sent`      submitted, not answered. → `accepted`, `waiting` (the connection broke, or the queue is full)
 * - `accepted`  the queue has stored it. → `accepted` (listened for again on the next connection), `waiting` (the queue
 *   does not know it)
 */
interface OpenJob {
  id: string;
  text: string;
  state: 'waiting' | 'sent' | 'accepted';
  /** Whether the queue said once that it has accepted the job. */
  wasAccepted: boolean;
  done(end: JobEnd): void;
}

/**
 * One WebSocket for programs that submit many jobs: jobs that are ready in the same turn share a frame and a commit,
 * and results arrive as jobs end. If the connection breaks while jobs are open, the program dials again, submits what
 * was not confirmed and listens for the rest: since every job has an id, none is lost and none runs twice.
 */
export class JobConnection {
  readonly #options: ConnectionOptions;
  readonly #client: JobClient;
  readonly #open = new Map<string, OpenJob>();
  /** Wakes the callers that wait for a place in flight as one becomes free, oldest first. */
  readonly #places: (() => void)[] = [];
  readonly #socket: KeptSocket;
  #isClosed = false;
  #flushes = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#client = new JobClient(options);
    this.#socket = new KeptSocket(options, this.#client, {
      isNeeded: () => this.#open.size > 0,
      onOpen: () => this.#onOpen(),
      onFrame: (frame) => this.#onFrame(frame),
      onBroken: () => this.#onBroken(),
      onDenied: (error) => this.#giveUp(error),
    });
  }

  /** Submits a job and resolves with its end; never rejects. Waits while `inFlight` jobs are open. */
  async settle(job: NewJob): Promise<JobEnd> {
    await this.#place();
    return await this.#begin(job);
  }

  /**
   * Submits a job and resolves with its view once it is settled.
   * @throws QueueError when the queue does not take the job, or the connection is closed or denied
   */
  async run(job: NewJob): Promise<JobView> {
    const end = await this.settle(job);
    if ('error' in end) throw end.error;
    return end.job;
  }

  /**
   * Submits jobs as there is room for them, and returns them as they end.
   * @throws QueueError when the connection is closed or denied; any error of the source
   */
  results(jobs: Iterable<NewJob> | AsyncIterable<NewJob>): AsyncGenerator<JobEnd> {
    return resultsOf((job) => this.settle(job), jobs, this.#options.inFlight ?? IN_FLIGHT);
  }

  /** Closes the connection. Open jobs continue at the queue; in this program they end with an error. */
  close(): void {
    this.#giveUp(new QueueError('The connection was closed here.', null, 'closed'));
  }

  /** Waits for a free place in flight. */
  async #place(): Promise<void> {
    const most = this.#options.inFlight ?? IN_FLIGHT;
    while (this.#open.size >= most && !this.#isClosed) {
      await new Promise<void>((resolve) => this.#places.push(resolve));
    }
  }

  #begin(job: NewJob): Promise<JobEnd> {
    const id = job.id ?? timeOrderedId();
    if (this.#isClosed) {
      return Promise.resolve({ id, error: new QueueError('The connection is closed.', null, 'closed') });
    }
    if (this.#open.has(id)) {
      const message = `A job with the id "${id}" is in flight on this connection.`;
      return Promise.resolve({ id, error: new QueueError(message, 409, 'conflict') });
    }
    const text = writeJson({ ...job, id });
    // The queue would close the connection each time that it gets a job this large.
    if (!fitsUtf8(text, bounds.PAYLOAD_BYTES)) {
      const message = `The job "${id}" is larger than ${bounds.PAYLOAD_BYTES / 1024 / 1024} MiB.`;
      return Promise.resolve({ id, error: new QueueError(message, 413, 'too_large') });
    }
    return new Promise((done) => {
      this.#open.set(id, { id, text, state: 'waiting', wasAccepted: false, done });
      this.#socket.open();
      this.#flushSoon();
    });
  }

  /** Sends the jobs that become ready in this turn together. */
  #flushSoon(): void {
    if (this.#flushes) return;
    this.#flushes = true;
    setTimeout(() => {
      this.#flushes = false;
      if (this.#socket.isReady) this.#flush();
    }, 0);
  }

  #flush(): void {
    let texts: string[] = [];
    let characters = 0;
    const send = () => {
      if (texts.length > 0) this.#socket.send(`{"type":"submit","jobs":[${texts.join(',')}]}`);
      texts = [];
      characters = 0;
    };
    for (const job of this.#open.values()) {
      if (job.state !== 'waiting') continue;
      if (texts.length >= bounds.JOBS_PER_SUBMISSION || characters + job.text.length > FRAME_CHARACTERS)
        send();
      texts.push(job.text);
      characters += job.text.length;
      job.state = 'sent';
    }
    send();
  }

  #onOpen(): void {
    const accepted = [...this.#open.values()].filter(({ state }) => state === 'accepted').map(({ id }) => id);
    for (let from = 0; from < accepted.length; from += bounds.JOBS_PER_SUBMISSION) {
      this.#send({ type: 'listen', ids: accepted.slice(from, from + bounds.JOBS_PER_SUBMISSION) });
    }
    this.#flush();
  }

  #onBroken(): void {
    for (const job of this.#open.values()) if (job.state === 'sent') job.state = 'waiting';
  }

  async #onFrame(frame: ClientAnswer): Promise<void> {
    switch (frame.type) {
      case 'submitted':
        for (const answer of frame.answers) {
          if ('error' in answer) this.#onRejected(answer.id, answer.error);
          else this.#onAccepted(answer.id);
        }
        return;
      case 'settled':
        for (const job of frame.jobs) await this.#onSettled(job);
        this.#send({ type: 'ack' });
        return;
      case 'unknown':
        for (const id of frame.ids) this.#onUnknown(id);
        return;
      case 'error':
        // The queue may or may not have stored the jobs of the frame: all that are not answered are submitted again.
        for (const job of this.#open.values()) if (job.state === 'sent') this.#again(job, frame.error);
    }
  }

  #onAccepted(id: string): void {
    const job = this.#open.get(id);
    if (job?.state !== 'sent') return;
    job.state = 'accepted';
    job.wasAccepted = true;
  }

  #onRejected(id: string | null, error: SubmissionError): void {
    const job = this.#open.get(id ?? '');
    if (!job) return;
    if (error.status === 429 || error.status >= 502) this.#again(job, error);
    else this.#end(job, { id: job.id, error: new QueueError(error.message, error.status, error.code) });
  }

  /** Submits a job again after a while. */
  #again(job: OpenJob, { retry_after_seconds: seconds }: SubmissionError): void {
    const pause = seconds === undefined ? FULL_PAUSE_MS : seconds * 1000;
    job.state = 'sent';
    setTimeout(
      () => {
        if (this.#open.get(job.id) !== job || job.state !== 'sent') return;
        job.state = 'waiting';
        this.#flushSoon();
      },
      pause * (1 + Math.random() / 2),
    );
  }

  async #onSettled(settled: SettledJob): Promise<void> {
    if (typeof settled.id !== 'string') throw new Error('a settled job has no id');
    const open = this.#open.get(settled.id);
    if (!open) return;
    const { has_long_result: isLong, ...view } = settled;
    let job = view as unknown as JobView;
    try {
      if (isLong) job = await this.#client.get(settled.id);
    } catch (error) {
      return this.#end(open, { id: open.id, error: error as QueueError });
    }
    if (typeof job.state !== 'string') throw new Error(`the job "${open.id}" has no state`);
    if (isSettled(job.state)) this.#end(open, { id: open.id, job });
  }

  /**
   * Handles a job that the queue does not know: either it never arrived, or it was settled so long ago that the queue
   * has forgotten it.
   */
  #onUnknown(id: string): void {
    const job = this.#open.get(id);
    if (!job) return;
    if (job.wasAccepted) {
      const message = `The queue does not know job ${id} any more: it settled while this program was away, and was removed.`;
      this.#end(job, { id, error: new QueueError(message, 404, 'job_not_found') });
      return;
    }
    job.state = 'waiting';
    this.#flushSoon();
  }

  #end(job: OpenJob, end: JobEnd): void {
    this.#open.delete(job.id);
    job.done(end);
    this.#places.shift()?.();
    // An idle connection would keep its program from ending.
    if (this.#open.size === 0) setTimeout(() => this.#open.size === 0 && this.#socket.close(), 0);
  }

  #giveUp(error: QueueError): void {
    this.#isClosed = true;
    this.#socket.close();
    for (const job of this.#open.values()) job.done({ id: job.id, error });
    this.#open.clear();
    for (const place of this.#places.splice(0)) place();
  }

  #send(frame: ClientFrame): void {
    this.#socket.send(JSON.stringify(frame));
  }
}
