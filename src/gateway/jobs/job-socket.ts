import { freeBytes } from '../../durable/free-bytes.ts';
import {
  beginsObject,
  bounds,
  CLOSE,
  type ClientAnswer,
  ClientFrame,
  type ClientFrame as Frame,
  fieldsOf,
  jsonFields,
  keepMembers,
  PING_TEXT,
  PONG_TEXT,
  parseValue,
  SETTLED_WINDOW,
} from '../../protocol/index.ts';
import type { HeardAnswer, SettledJobs } from '../../queue/rpc.ts';
import type { Permissions } from '../auth/permissions.ts';
import { checkBody } from '../bodies/body.ts';
import { HttpError } from '../errors.ts';
import { errorOf, type ReadJob, readSubmission, rejection } from './submissions.ts';

/** One call for settled jobs waits this many ms. */
const QUESTION_MS = 30_000;
/** The pause after a call that the queue did not answer, ms. */
const PAUSE_MS = 1000;

/** Pings of a program that come within this many ms of a pong get no answer: the program sends one in 15 s. */
const PONG_EVERY_MS = 1000;

/**
 * This many jobs of a frame are read and stored at a time: other callers are served in between, and wait no longer
 * than for these.
 */
const JOBS_AT_A_TIME = 200;

/** The ports of one program's socket. */
export interface JobSocketPorts {
  /** Returns what the program may ask for now. */
  permissions(): Permissions;
  /** @returns answers in the order of the jobs */
  submit(jobs: ReadJob[]): Promise<HeardAnswer[]>;
  /** @returns the ids under which there is no job */
  listen(ids: string[]): Promise<string[]>;
  nextSettled(waitMs: number): Promise<SettledJobs>;
  leave(): Promise<unknown>;
  cancel(id: string): Promise<unknown>;
  /** @returns a function that gives the bytes back. @throws HttpError when there is no room for them */
  hold(bytes: number): () => void;
  /** Waits until a frame of so many bytes may be worked on. @returns a function that ends the frame's turn */
  takeTurn(bytes: number): Promise<() => void>;
  send(text: string): void;
  close(code: number, reason: string): void;
  sleep(ms: number): Promise<void>;
}

/**
 * A socket on which one program submits jobs and learns of their ends.
 *
 * Frames are handled in order. One call at a time asks the queue for settled jobs. No such call runs while the socket
 * listens for no job, or while the program has not acknowledged the last ones: results wait in their rows.
 */
export class JobSocket {
  readonly #ports: JobSocketPorts;
  /** The jobs whose ends the program is to be told. */
  readonly #open = new Set<string>();
  /** The jobs of the submission that is not answered yet. */
  #submitted = new Set<string>();
  #frames: Promise<void> = Promise.resolve();
  #unacknowledged = 0;
  #isAsking = false;
  /**
   * Whether the queue does not know this socket's jobs: it has said so, and the socket has not named them all since.
   */
  #isUnknown = false;
  #isClosed = false;
  /** Epoch ms of the last pong. */
  #pongAt = 0;
  /** Functions that give back the bytes of unfinished frames, and the turn of the one at work. */
  readonly #held = new Set<() => void>();

  constructor(ports: JobSocketPorts) {
    this.#ports = ports;
  }

  onMessage(text: string | ArrayBuffer): void {
    if (typeof text !== 'string') {
      this.#ports.close(1003, 'frames of this socket are text');
      return;
    }
    if (text === PING_TEXT) return this.#onPing();
    if (text.length > bounds.FRAME_BYTES) {
      this.#ports.close(CLOSE.tooLarge, `a frame may have ${bounds.FRAME_BYTES} bytes`);
      return;
    }
    let release: () => void;
    try {
      release = this.#ports.hold(text.length);
      this.#held.add(release);
    } catch (error) {
      this.#tell(error);
      return;
    }
    this.#frames = this.#frames
      .then(() => this.#inTurn(text))
      .catch((error) => this.#tell(error))
      .finally(() => {
        release();
        this.#held.delete(release);
      });
  }

  /** Answers a ping, at most once in PONG_EVERY_MS: pongs that a program does not read pile up here. */
  #onPing(): void {
    const now = Date.now();
    if (now < this.#pongAt + PONG_EVERY_MS) return;
    this.#pongAt = now;
    this.#ports.send(PONG_TEXT);
  }

  onClose(): void {
    this.#isClosed = true;
    // When a socket closes, Cloudflare drops whatever its frames wait for, so nothing else gives their bytes back.
    for (const release of this.#held) release();
    void this.#ports.leave().catch(() => {});
  }

  async #inTurn(text: string): Promise<void> {
    if (this.#isClosed) return;
    const end = await this.#ports.takeTurn(text.length);
    this.#held.add(end);
    try {
      await this.#onFrame(text);
    } finally {
      end();
      this.#held.delete(end);
    }
  }

  async #onFrame(text: string): Promise<void> {
    if (this.#isClosed) return;
    const parsed = parseValue(ClientFrame, parseFrame(text));
    if (!parsed.ok) throw notUnderstood(parsed.message);
    await this.#handle(parsed.value);
    this.#ask();
  }

  async #handle(frame: Frame): Promise<void> {
    switch (frame.type) {
      case 'submit':
        return this.#submit(frame.jobs);
      case 'listen': {
        // The ids are added before the program can be told of any of their ends.
        for (const id of frame.ids) this.#open.add(id);
        const unknown = await this.#ports.listen(frame.ids);
        for (const id of unknown) this.#open.delete(id);
        if (unknown.length > 0) this.#send({ type: 'unknown', ids: unknown });
        return;
      }
      case 'cancel':
        await Promise.all(frame.ids.map((id) => this.#ports.cancel(id)));
        return;
      case 'ack':
        this.#unacknowledged = Math.max(0, this.#unacknowledged - 1);
    }
  }

  async #submit(bodies: unknown[]): Promise<void> {
    const read: (ReadJob | HttpError)[] = [];
    const answered: (HeardAnswer | HttpError)[] = [];
    this.#submitted = new Set();
    const permissions = this.#ports.permissions();
    for (let from = 0; from < bodies.length; from += JOBS_AT_A_TIME) {
      const some = bodies
        .slice(from, from + JOBS_AT_A_TIME)
        .map((body) => (hasId(body) ? readSubmission(body, permissions) : WITHOUT_ID));
      const jobs = some.filter((job): job is ReadJob => !(job instanceof HttpError));
      for (const { id = '' } of jobs) this.#submitted.add(id);
      read.push(...some);
      if (jobs.length > 0) answered.push(...(await this.#submitOrFail(jobs)));
    }
    const answers = answered.values();
    const told = read.map((job, index) => {
      const id = job instanceof HttpError ? idOf(bodies[index]) : (job.id ?? null);
      if (job instanceof HttpError) return { id, error: errorOf(job) };
      const answer = answers.next().value;
      if (!(answer && 'ok' in answer && answer.ok)) return { id, error: errorOf(failureOf(answer)) };
      this.#open.add(answer.job.id);
      return { id: answer.job.id };
    });
    this.#send({ type: 'submitted', answers: told });
    this.#submitted = new Set();
  }

  /** Submits jobs. Where the queue does not answer, each job gets that error, and the program submits it again. */
  async #submitOrFail(jobs: ReadJob[]): Promise<(HeardAnswer | HttpError)[]> {
    try {
      return await this.#ports.submit(jobs);
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      return jobs.map(() => error);
    }
  }

  /** Asks for settled jobs again and again, as long as the program wants them. */
  #ask(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const asking = async () => {
      while (!this.#isClosed && this.#open.size > 0 && this.#unacknowledged < SETTLED_WINDOW) {
        await this.#askOnce();
      }
      this.#isAsking = false;
    };
    void asking();
  }

  async #askOnce(): Promise<void> {
    let settled: SettledJobs;
    try {
      if (this.#isUnknown) await this.#listenAnew();
      settled = await this.#ports.nextSettled(QUESTION_MS);
    } catch {
      // The queue restarts, or its disk is full: asking later loses nothing.
      await this.#ports.sleep(PAUSE_MS);
      return;
    }
    if (settled.listener === 'unknown') this.#isUnknown = true;
    if (settled.listener === 'leaving') this.#ports.close(CLOSE.restarting, 'queue restarting');
    // A program learns that a job was taken before it learns that the job has ended.
    if (settled.jobs.some(({ id }) => this.#submitted.has(id))) await this.#frames;
    if (settled.jobs.length === 0 || this.#isClosed) return;
    for (const { id } of settled.jobs) this.#open.delete(id);
    this.#unacknowledged += 1;
    this.#ports.send(`{"type":"settled","jobs":[${settled.jobs.map(({ view }) => view).join(',')}]}`);
  }

  /**
   * Names the socket's jobs to the queue again after the queue did not know them: at the first call, and after its
   * restart.
   */
  async #listenAnew(): Promise<void> {
    const ids = [...this.#open];
    for (let from = 0; from < ids.length; from += bounds.JOBS_PER_SUBMISSION) {
      const unknown = await this.#ports.listen(ids.slice(from, from + bounds.JOBS_PER_SUBMISSION));
      for (const id of unknown) this.#open.delete(id);
      if (unknown.length > 0) this.#send({ type: 'unknown', ids: unknown });
    }
    this.#isUnknown = false;
  }

  #tell(error: unknown): void {
    const told = error instanceof HttpError ? error : new HttpError(500, String(error), 'internal_error');
    this.#send({ type: 'error', error: errorOf(told) });
  }

  #send(answer: ClientAnswer): void {
    if (!this.#isClosed) this.#ports.send(JSON.stringify(answer));
  }
}

/** Parses a frame and keeps the payloads of its jobs as they were written. @throws HttpError 400 */
function parseFrame(text: string): unknown {
  const bytes = new TextEncoder().encode(text);
  try {
    checkBody(bytes);
    const frame = JSON.parse(text) as unknown;
    const jobs = beginsObject(bytes) ? jsonFields(bytes, ['jobs']).jobs : undefined;
    if (jobs !== undefined) keepMembers(fieldsOf(frame).jobs, jobs, ['payload']);
    return frame;
  } catch (error) {
    throw error instanceof HttpError ? error : notUnderstood(`not JSON: ${(error as Error).message}`);
  } finally {
    freeBytes(bytes);
  }
}

function notUnderstood(why: string): HttpError {
  return new HttpError(400, `frame not understood: ${why}`, 'invalid_frame');
}

const WITHOUT_ID = new HttpError(
  400,
  'id: a job submitted over a socket needs an id of its own',
  'invalid_job',
);

function hasId(body: unknown): boolean {
  return typeof fieldsOf(body).id === 'string';
}

function idOf(body: unknown): string | null {
  const { id } = fieldsOf(body);
  return typeof id === 'string' ? id : null;
}

function failureOf(answer: HeardAnswer | HttpError | undefined): HttpError {
  return answer instanceof HttpError ? answer : rejection(answer);
}
