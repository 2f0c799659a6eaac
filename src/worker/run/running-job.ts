import type { Job, JobResult, PartialAnswer, Timing, Usage } from '../../protocol/index.ts';
import { fieldsOf } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import type { AssembledAnswer } from '../answers/assembled-answer.ts';
import type { Settlement } from '../jobs/settlement.ts';
import type { AttemptEnd, AttemptTrace, EndedAttempt, JobTracer } from '../ports.ts';

/**
 * The state of one attempt at a job on this worker.
 *
 * - `preparing` → `running` (its request went to the engine), `over`
 * - `running`   → `over`
 * - `over`: finished, released or revoked; any further output of its run is discarded.
 */
export type RunState = 'preparing' | 'running' | 'over';

export class RunningJob {
  readonly job: Job;
  /** The spans of the attempt; null: none are made. */
  readonly trace: AttemptTrace | null;
  /** The number of tokens that the engine says it generated for one choice; null until it says so. */
  generatedTokens: number | null = null;
  /** The usage that the engine counted for the whole answer; null until it reports one. */
  usage: Usage | null = null;
  /** Takes the answer if a caller waits for it, or a copy of it if a stored job is watched; null: neither. */
  stream: AnswerStream | null = null;
  /** The answer of a stored job, if it is assembled here; null: the engine gives it in one piece. */
  assembly: AssembledAnswer | null = null;
  /** Whether an output of the attempt has been sent. */
  hasYielded = false;
  /** Returns the usage of an unfinished answer so far. */
  counting: () => Usage | null = () => null;
  readonly #abort = new AbortController();
  readonly #arrivedAtMs: number;
  #state: RunState = 'preparing';
  #requestedAtMs: number | null = null;
  #firstTokenAtMs: number | null = null;

  constructor(job: Job, nowMs: number, tracer?: JobTracer) {
    this.job = job;
    this.trace = tracer?.begin(job, nowMs) ?? null;
    this.#arrivedAtMs = nowMs;
  }

  get state(): RunState {
    return this.#state;
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /** Fires when the attempt is over before its run has ended, which closes the engine's request. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  requested(nowMs: number): void {
    if (this.#state !== 'preparing') return;
    this.#state = 'running';
    this.#requestedAtMs = nowMs;
  }

  /** Returns the time since the attempt's request went to the engine, ms; 0 before. */
  elapsedMs(nowMs: number): number {
    return this.#requestedAtMs === null ? 0 : nowMs - this.#requestedAtMs;
  }

  /** Notes that a piece of a streamed answer has arrived. */
  streamed(nowMs: number): void {
    this.#firstTokenAtMs ??= nowMs;
  }

  /** Returns the time since the attempt's first token, ms; 0: none has come. */
  streamedMs(nowMs: number): number {
    return this.#firstTokenAtMs === null ? 0 : nowMs - this.#firstTokenAtMs;
  }

  /** Returns the times of the attempt for the queue; undefined: the attempt did not reach the engine. */
  timing(): Timing | undefined {
    if (this.#requestedAtMs === null) return undefined;
    const since = (at: number | null) => (at === null ? undefined : Math.max(0, at - this.#arrivedAtMs));
    return { started_ms: since(this.#requestedAtMs), first_token_ms: since(this.#firstTokenAtMs) };
  }

  /** Ends the attempt's trace, and returns its metrics. */
  ended(end: AttemptEnd, nowMs: number): EndedAttempt {
    const { usage } = this;
    this.trace?.end(end, { usage, firstTokenAtMs: this.#firstTokenAtMs }, nowMs);
    const since = (at: number | null) =>
      at === null || this.#requestedAtMs === null ? null : Math.max(0, at - this.#requestedAtMs);
    const { result } = end;
    return { result, ranMs: since(nowMs), firstTokenMs: since(this.#firstTokenAtMs), usage };
  }

  /** Returns the part of the answer that another attempt could continue; null: it would start over. */
  partial(): PartialAnswer | null {
    return this.assembly?.partial() ?? null;
  }

  /** Returns the fields of the attempt's settlement beside the outcome. */
  details(): Pick<JobResult, 'timing' | 'usage' | 'account'> {
    const usage = this.usage ?? this.counting();
    const { account } = this.job;
    return { timing: this.timing(), ...(usage && { usage }), ...(account !== undefined && { account }) };
  }

  /** Marks an attempt that came to its own end. */
  finish(): void {
    this.#state = 'over';
  }

  /** Ends the attempt before its run does. */
  abort(): void {
    this.#state = 'over';
    this.#abort.abort();
  }
}

/** Returns how the attempt ended that this frame settles. */
export function endOf(settlement: Settlement): AttemptEnd {
  if (settlement.type !== 'job_error') return { result: 'succeeded' };
  const { code = 'worker_error', retryable = false } = settlement;
  return { result: 'failed', code, retryable };
}

/** Returns the ids of a job for log lines: its own, and the one by which its caller names the request. */
export function idsOf({ job_id, payload }: Job): { job_id: string; request_id?: string } {
  const { headers } = fieldsOf(payload);
  const { 'x-request-id': id } = fieldsOf(headers);
  return typeof id === 'string' && id !== job_id ? { job_id, request_id: id } : { job_id };
}
