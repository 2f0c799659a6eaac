import pRetry from 'p-retry';
import type * as z from 'zod';
import type { JobSubmission, JobView, LedgerStep } from '../protocol/index.ts';
import { isSettled, keepMembers, timeOrderedId, writeJson } from '../protocol/index.ts';

/** A job to be stored; docs/protocol.md explains the fields. */
export type NewJob = z.input<typeof JobSubmission>;

export interface ClientOptions {
  /** The address of the queue, such as `http://127.0.0.1:8788`. */
  url: string;
  /** A token with the scope `submit`; `get`, `wait` and `ledger` also take one with `read`. */
  token?: string | undefined;
  /** The id of the queue to use at that address; left out: its default queue. */
  queueId?: string | undefined;
  /** The number of retries of a request that got no answer or a temporary error of the queue; left out: 4. */
  retries?: number;
}

export interface WaitOptions {
  /** The longest wait, s; left out: as long as the job takes. */
  seconds?: number;
  signal?: AbortSignal;
}

/** Thrown if the queue did not carry out a request. */
export class QueueError extends Error {
  override name = 'QueueError';
  /** The HTTP status; null: no answer came. */
  readonly status: number | null;
  /** The queue's code of the error, such as `queue_full`; null: it gave none. */
  readonly code: string | null;

  constructor(message: string, status: number | null, code: string | null = null, cause?: unknown) {
    super(message, { cause });
    this.status = status;
    this.code = code;
  }
}

const FIRST_PAUSE_MS = 250;
/** The longest wait of one request for a job that is not settled, s; proxies cut longer ones. */
const WAIT_PIECE_SECONDS = 60;
/** A request is given up this long after the time that it asks the queue to wait, ms. */
const ANSWER_WITHIN_MS = 30_000;

/**
 * Stores jobs in a queue and reads them. Every method may throw QueueError, or the reason of its aborted signal. A
 * request with a temporary failure is repeated, which is safe: a submission without an id of its own is given one
 * first.
 */
export class JobClient {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** Stores a job. The same id with the same payload returns the job that exists. */
  submit(job: NewJob, signal?: AbortSignal): Promise<JobView> {
    return this.#ask('POST', '', { body: { ...job, id: job.id ?? timeOrderedId() }, signal });
  }

  /** Returns the job in its present state. */
  get(id: string, signal?: AbortSignal): Promise<JobView> {
    return this.#ask('GET', `/${encodeURIComponent(id)}`, { signal });
  }

  /** Returns the job once it is settled, or in its present state when the time is over. */
  async wait(id: string, { seconds = Number.POSITIVE_INFINITY, signal }: WaitOptions = {}): Promise<JobView> {
    const endsAt = performance.now() + seconds * 1000;
    for (;;) {
      const leftSeconds = Math.max(0, Math.ceil((endsAt - performance.now()) / 1000));
      const waitSeconds = Math.min(WAIT_PIECE_SECONDS, leftSeconds);
      const job = await this.#ask<JobView>('GET', `/${encodeURIComponent(id)}?wait=${waitSeconds}`, {
        waitSeconds,
        signal,
      });
      if (isSettled(job.state) || performance.now() >= endsAt) return job;
    }
  }

  /** Cancels a job; a settled job stays as it is. */
  cancel(id: string, signal?: AbortSignal): Promise<JobView> {
    return this.#ask('DELETE', `/${encodeURIComponent(id)}`, { signal });
  }

  /** Returns the steps in a job's ledger. */
  async ledger(id: string, signal?: AbortSignal): Promise<LedgerStep[]> {
    const path = `/${encodeURIComponent(id)}/ledger`;
    return (await this.#ask<{ steps: LedgerStep[] }>('GET', path, { signal })).steps;
  }

  #ask<T>(method: string, path: string, request: Request): Promise<T> {
    const { signal } = request;
    return pRetry(() => this.#askOnce<T>(method, path, request), {
      retries: this.#options.retries ?? 4,
      minTimeout: FIRST_PAUSE_MS,
      shouldRetry: ({ error }) => error instanceof QueueError && isPassing(error),
      ...(signal ? { signal } : {}),
    });
  }

  async #askOnce<T>(method: string, path: string, { body, waitSeconds = 0, signal }: Request): Promise<T> {
    const { url, token, queueId } = this.#options;
    const headers = new Headers({ 'content-type': 'application/json' });
    if (token) headers.set('authorization', `Bearer ${token}`);
    if (queueId) headers.set('x-queue-id', queueId);
    const timeout = AbortSignal.timeout(waitSeconds * 1000 + ANSWER_WITHIN_MS);
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${url.replace(/\/+$/, '')}/api/jobs${path}`, {
        method,
        headers,
        ...(body === undefined ? {} : { body: writeJson(body) }),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      text = await response.text();
    } catch (error) {
      signal?.throwIfAborted();
      throw new QueueError(`No queue answers at ${url} (${reasonOf(error)}).`, null, null, error);
    }
    if (response.ok) return withResult(JSON.parse(text) as T, text);
    throw refusal(response.status, text);
  }
}

/** Returns a job with the JSON of its result as it was sent. */
function withResult<T>(job: T, json: string): T {
  keepMembers(job, new TextEncoder().encode(json), ['result']);
  return job;
}

interface Request {
  body?: unknown;
  waitSeconds?: number;
  signal?: AbortSignal | undefined;
}

/** Returns whether the same request may succeed soon: there was no answer, or a temporary error of queue or proxy. */
function isPassing({ status }: QueueError): boolean {
  return status === null || status === 429 || status >= 502;
}

/** Returns why `fetch` failed, which is in its cause and not in its message. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as { cause?: { code?: string; message?: string }; message: string };
  return cause?.code ?? cause?.message ?? message;
}

function refusal(status: number, text: string): QueueError {
  try {
    const { message, code } = JSON.parse(text).error;
    return new QueueError(String(message), status, code ?? null);
  } catch {
    return new QueueError(text.slice(0, 500) || `HTTP ${status} without a message`, status);
  }
}
