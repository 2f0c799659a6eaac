import type { EngineClient } from '../../engine/client/types.ts';
import { doubling } from '../../process/backoff.ts';
import { sleep } from '../../process/clock.ts';
import { boundaryOf, formFields, type Json, jsonFields, parseJsonBytes } from '../../protocol/index.ts';
import { bodyFacts } from '../../request-facts/body-facts.ts';
import { RequestFault } from '../../request-facts/json.ts';
import type { Adapters } from '../adapters/adapters.ts';
import { failureOf, finalFailure } from '../failure.ts';
import type { Ports, RunEngine } from '../ports.ts';
import type { RunningJob } from './running-job.ts';

/**
 * Wraps the engine for one attempt: the headers of its requests carry the job's priority, unless they already name one,
 * and the trace that the job belongs to, whether or not spans are exported.
 */
export function tracedEngine(
  engine: EngineClient,
  { job, trace }: RunningJob,
  clock: Ports['clock'],
): RunEngine {
  const { traceparent, tracestate } = job.trace ?? {};
  const { priority = 0 } = job;
  if (trace === null && traceparent === undefined && priority === 0) return engine;
  // In vLLM's header the lowest number comes first.
  const ranked: Record<string, string> = priority === 0 ? {} : { 'x-vllm-priority': String(-priority) };
  return {
    isHealthy: (timeoutMs) => engine.isHealthy(timeoutMs),
    request: async (call) => {
      const own = trace?.request(call, clock.now());
      const given = traceparent === undefined ? {} : { traceparent, ...(tracestate && { tracestate }) };
      const answer = await engine.request({
        ...call,
        headers: { ...ranked, ...given, ...call.headers, ...own },
      });
      trace?.answered(answer.status);
      return answer;
    },
  };
}

type Body = Json | undefined;

/**
 * The engine as one attempt sees it: an adapter that a request names as its model is loaded before the request is sent,
 * and stays loaded until the attempt is over.
 */
export class AdaptedEngine implements RunEngine {
  readonly #engine: RunEngine;
  readonly #adapters: Adapters;
  #held: (() => void)[] = [];

  constructor(engine: RunEngine, adapters: Adapters) {
    this.#engine = engine;
    this.#adapters = adapters;
  }

  isHealthy(timeoutMs: number): Promise<boolean> {
    return this.#engine.isHealthy(timeoutMs);
  }

  request(call: Parameters<RunEngine['request']>[0]): ReturnType<RunEngine['request']> {
    const name = modelIn(call.body, call.contentType);
    // For any other model no turn of the event loop passes, since a caller waits for each turn.
    if (name === null || !this.#adapters.has(name)) return this.#engine.request(call);
    return this.#adapters.use(name, call.signal).then((release) => {
      this.#held.push(release);
      return this.#engine.request(call);
    });
  }

  /** Releases the adapters of an attempt that is over. */
  release(): void {
    for (const release of this.#held) release();
    this.#held = [];
  }
}

/** Returns the model that a body names; null: none. */
function modelIn(body: Body, contentType: string | undefined): string | null {
  if (body === undefined) return null;
  const boundary = boundaryOf(contentType);
  if (typeof body !== 'string' && boundary !== null) {
    const value = formFields(body, boundary).get('model');
    return value === undefined ? null : new TextDecoder().decode(value);
  }
  try {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { model } = jsonFields(bytes, ['model'], Number.POSITIVE_INFINITY);
    const name = model === undefined ? null : parseJsonBytes(model);
    return typeof name === 'string' ? name : null;
  } catch {
    // The engine itself reports that the body is malformed.
    return null;
  }
}

/**
 * Wraps the engine for one attempt: the worker checks the final bytes of each body before they are sent, whatever code
 * made them, since a base queue and RunPod's platform check none.
 * @param isContinued whether the attempt may continue an answer: then the worker gives the prompt as token ids
 */
export function checkedEngine(engine: RunEngine, isContinued: boolean): RunEngine {
  return {
    isHealthy: (timeoutMs) => engine.isHealthy(timeoutMs),
    request: (call) => {
      const { body, contentType = null } = call;
      if (body !== undefined && !isNoJson(body, contentType))
        check(typeof body === 'string' ? Buffer.from(body) : body, contentType, isContinued);
      return engine.request(call);
    },
  };
}

/** Tells whether no parser reads a text as an object: then the engine itself reports the fault. */
function isNoJson(body: string | Uint8Array, contentType: string | null): boolean {
  const isNamedJson = contentType === null || /^application\/json\b/i.test(contentType);
  return typeof body === 'string' && isNamedJson && !/^[\s\ufeff]*\{/.test(body);
}

/** Checks the bytes of a body. @throws JobFailure */
function check(body: Uint8Array, contentType: string | null, isContinued: boolean): void {
  try {
    bodyFacts(body, contentType, isContinued);
  } catch (error) {
    throw error instanceof RequestFault ? finalFailure('invalid_request', error.message) : error;
  }
}

/**
 * The most requests for one job, and the pause before the second, ms, which doubles; both as in the deployed worker.
 */
const TRIES = 3;
const FIRST_PAUSE_MS = 500;

/**
 * The codes of engine failures that may be temporary. A request that the engine refuses, or that fails in the worker,
 * is not repeated.
 */
const MAY_PASS = new Set(['engine_error', 'engine_overloaded', 'engine_unreachable', 'engine_died']);

/**
 * Runs a job again if its engine failed it for a reason that may be temporary, for queues that make no other attempt.
 * @param hasYielded whether a reader has a part of the job's answer, which another try would not continue
 * @throws what the last try threw
 */
export async function withEngineRetries<T>(
  clock: Ports['clock'],
  signal: AbortSignal,
  hasYielded: () => boolean,
  run: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await run();
    } catch (error) {
      const { code, retryable } = failureOf(error);
      if (tries >= TRIES || signal.aborted || !retryable || !MAY_PASS.has(code) || hasYielded()) throw error;
      await sleep(clock, doubling(FIRST_PAUSE_MS, Number.POSITIVE_INFINITY, tries));
      if (signal.aborted) throw error;
    }
  }
}
