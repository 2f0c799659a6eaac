import { type BrokenReason, bounds, type Failure } from '../protocol/index.ts';
import type { RequestAnswer, WaitingRequest } from '../queue/rpc.ts';
import { failureIn, fallOf, isRelease, worthTelling } from './fall-through.ts';
import type { Ended, Look, Outcome } from './outcome.ts';

export type { Look, Outcome } from './outcome.ts';

/**
 * The pause before the loop requests a worker again after one released the job, ms; it doubles up to the second value.
 */
const RELEASE_PAUSE_MS = { first: 20, most: 1000 };

/** The ports of the attempt loop. @typeParam Answer what carries the answer of an engine */
export interface AttemptLoopPorts<Answer> {
  queue: {
    request(job: WaitingRequest): Promise<RequestAnswer>;
    /** Cancels a job whose caller closed its connection. */
    cancel(jobId: string): Promise<unknown>;
  };
  /** Opens one stream at the worker's relay. */
  openStream(
    streamId: number,
    of: { call: WaitingRequest; worker_id: string; headers?: Record<string, string> },
  ): Promise<Opened<Answer>>;
  /** Looks at an answer that may be given up for the next step of an alias; left out: none is. */
  look?(answer: Answer): Look;
  /** Keeps the process at work for a promise that is not awaited. */
  waitUntil(promise: Promise<unknown>): void;
  now(): number;
  sleep(ms: number): Promise<void>;
}

/** Looks at a response. */
export function lookAt(response: Response): Look {
  return { status: response.status, text: () => response.clone().text() };
}

/** A stream that has opened, or that broke before it gave anything. */
export type Opened<Answer> =
  | {
      answer: Answer;
      /** Drops an answer that nobody reads. */
      drop(): void;
    }
  | { broken: BrokenReason };

/** The clock and timers that the loop uses outside of simulations. */
export const REAL_TIME: Pick<AttemptLoopPorts<never>, 'now' | 'sleep'> = {
  now: () => Date.now(),
  sleep: (ms) => new Promise<void>((done) => setTimeout(done, ms)),
};

type TimeLimits = Pick<WaitingRequest, 'deadline_ms' | 'limit_ms'>;

/**
 * Returns a request with what is left of its time limits after so many ms, for a caller that requests it anew. A
 * request without limits, as most are, is not copied, since it has some twenty fields.
 */
export function withTimeLeft<Call extends TimeLimits>(call: Call, passedMs: number): Call {
  const { deadline_ms, limit_ms } = call;
  if (deadline_ms === undefined && limit_ms === undefined) return call;
  const left = (ms: number) => Math.max(0, ms - passedMs);
  return {
    ...call,
    ...(deadline_ms !== undefined && { deadline_ms: left(deadline_ms) }),
    ...(limit_ms !== undefined && { limit_ms: left(limit_ms) }),
  };
}

/** Makes the opened stream of a relay's response. */
export function openedResponse(response: Response): Opened<Response> {
  const broken = brokenOf(response);
  if (broken !== null) return { broken };
  return { answer: response, drop: () => void response.body?.cancel().catch(() => {}) };
}

const DEADLINE_PASSED: Failure = {
  message: 'the deadline of the request passed before a worker had an answer',
  code: 'deadline',
  retryable: false,
};

/**
 * Takes one request from the queue to an answer: requests a worker, opens the answer's stream, and starts again when an
 * attempt broke before it gave anything. Attempts released by a worker are not counted; they end with the time the
 * caller would wait for a slot. Where the request is for an alias and the attempts at one of its steps are over, it
 * goes on to the next step that the alias has for this end; the time limits hold for all steps together.
 */
export async function runAttempts<Answer>(
  call: WaitingRequest,
  hangUp: HangUp,
  ports: AttemptLoopPorts<Answer>,
): Promise<Outcome<Answer>> {
  const started = ports.now();
  let attempts = 0;
  let pause = RELEASE_PAUSE_MS.first;
  /** The fence token of the newest attempt that failed; 0: unknown; null: none failed. */
  let fence: number | null = null;
  const failedAt = new Set<string>();
  /** The end of the step before, and when this one began. */
  let fell: WaitingRequest['fell'];
  let stepStarted = started;
  /** The answer that the caller gets if the steps behind have no worker either. */
  let told: Ended<Answer> | null = null;
  while (true) {
    const left = withTimeLeft(fell === undefined ? call : { ...call, fell }, ports.now() - started);
    if (left.deadline_ms === 0 || left.limit_ms === 0) {
      return { kind: 'failed', failure: DEADLINE_PASSED, attempts };
    }
    const wanted: WaitingRequest =
      fence === null
        ? left
        : {
            ...left,
            earlier: {
              attempts,
              fence_token: fence,
              elapsed_ms: ports.now() - started,
              failed_at: [...failedAt],
            },
          };
    const outcome: Ended<Answer> | typeof GONE = await attempt(wanted, hangUp, ports);
    if (outcome === GONE) {
      ports.waitUntil(ports.queue.cancel(call.job_id));
      return { kind: 'gone' };
    }
    if (outcome.kind === 'failed') {
      fence = outcome.fence ?? 0;
      if (isRelease(outcome.failure) && ports.now() - stepStarted < call.wait_for_slot_ms) {
        await ports.sleep(pause);
        pause = Math.min(pause * 2, RELEASE_PAUSE_MS.most);
        continue;
      }
      if (!isRelease(outcome.failure)) {
        attempts += 1;
        if (outcome.worker_id !== undefined) failedAt.add(outcome.worker_id);
        if (outcome.failure.retryable && attempts < bounds.CALL_ATTEMPTS) continue;
      }
    }
    const fall = fallOf(outcome);
    told = worthTelling(told, outcome.kind === 'failed' ? { ...outcome, attempts } : outcome);
    if (fall === null) return told;
    fell = fall;
    attempts = 0;
    pause = RELEASE_PAUSE_MS.first;
    stepStarted = ports.now();
  }
}

async function attempt<Answer>(
  call: WaitingRequest,
  hangUp: HangUp,
  ports: AttemptLoopPorts<Answer>,
): Promise<Ended<Answer> | typeof GONE> {
  const asked = ports.queue.request(call);
  const dispatched = await hangUp.or(asked);
  if (dispatched === GONE) {
    // The cancellation may reach the queue before the call does.
    const again = () => ports.queue.cancel(call.job_id);
    ports.waitUntil(asked.then(again, () => {}));
    return GONE;
  }
  if (dispatched.kind !== 'stream' && dispatched.kind !== 'error') return dispatched;
  const { worker_id, step } = dispatched;
  const failed = (failure: Failure) =>
    ({ kind: 'failed', failure, attempts: 0, worker_id, ...(step && { step }) }) as const;
  if (dispatched.kind === 'error') return failed(dispatched.failure);
  let opened: Opened<Answer> | typeof GONE;
  try {
    const opening = ports.openStream(dispatched.stream_id, {
      // An answer that moves goes on with the model that has begun it.
      call: step === undefined ? call : { ...call, model: step.model },
      worker_id,
      ...(dispatched.headers && { headers: dispatched.headers }),
    });
    opened = await hangUp.or(opening);
    // Nobody reads an answer that opens after the caller hung up.
    if (opened === GONE) void opening.then((late) => 'answer' in late && late.drop()).catch(() => {});
  } catch (error) {
    if (hangUp.hasHappened) return GONE;
    const message = `the relay of worker ${worker_id} failed: ${(error as Error).message}`;
    return failed({ message, code: 'worker_error', retryable: true });
  }
  if (opened === GONE) return GONE;
  if ('answer' in opened) {
    const look = step && ports.look?.(opened.answer);
    const failure = look ? await failureIn(look, step) : null;
    if (failure === null) return { kind: 'answer', answer: opened.answer };
    opened.drop();
    return failed(failure);
  }
  return { ...failed(opened.broken), fence: dispatched.fence_token };
}

export const GONE = Symbol('caller gone');

/**
 * Tells whether a request's caller has hung up. An AbortController and its listeners cost the runtime ten times as
 * much.
 */
export class HangUp {
  #hasHappened = false;
  /** The functions to be called when the caller hangs up. */
  #waiting: ((gone: typeof GONE) => void)[] = [];
  #happening: Promise<typeof GONE> | null = null;

  get hasHappened(): boolean {
    return this.#hasHappened;
  }

  /** Resolves when the caller hangs up. It is one promise, however often it is asked for, made when it first is. */
  get whenHappened(): Promise<typeof GONE> {
    this.#happening ??= new Promise((resolve) => this.#tell(resolve));
    return this.#happening;
  }

  happen(): void {
    this.#hasHappened = true;
    for (const tell of this.#waiting) tell(GONE);
    this.#waiting = [];
  }

  /** Resolves to the promise's value, or to GONE as soon as the caller has hung up. */
  or<T>(promise: Promise<T>): Promise<T | typeof GONE> {
    return new Promise((resolve, reject) => {
      this.#tell(resolve);
      promise.then(resolve, reject);
    });
  }

  #tell(gone: (gone: typeof GONE) => void): void {
    if (this.#hasHappened) gone(GONE);
    else this.#waiting.push(gone);
  }
}

/**
 * The response header of a stream that broke before it gave anything: a JSON BrokenReason. Another attempt may then be
 * made without the caller noticing.
 */
export const BROKEN_HEADER = 'x-relay-broken';

/** Returns why the stream of a relay's response broke before it gave anything, or null where it has opened. */
export function brokenOf({ headers }: Response): BrokenReason | null {
  const broken = headers.get(BROKEN_HEADER);
  return broken === null ? null : (JSON.parse(broken) as BrokenReason);
}
