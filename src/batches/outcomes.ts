import { type JobView, writeJsonLine } from '../protocol/index.ts';
import type { Batch, BatchUsage } from './batch.ts';
import type { BatchPorts } from './ports.ts';
import { findBatch, moveLines, type StoredBatch, type StoredLine, saveBatch } from './store.ts';

/** The outcome of one line, as it is written. */
export interface LineOutcome {
  /** The file to which the line's outcome is written. */
  file: 'output' | 'error';
  /** Whether the line was run: a line that was never run counts neither as completed nor as failed. */
  isTried: boolean;
  /** The status of an error's answer, or its code; null: the line succeeded. */
  kind: string | null;
  text: string;
  usage: BatchUsage;
}

export const NO_USAGE: BatchUsage = {
  input_tokens: 0,
  cached_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
};

/** The reasons why a line was not run, with the codes of OpenAI's error files. */
export const NOT_RUN = {
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before this line was run.' },
  expired: {
    code: 'batch_expired',
    message: 'The window of the batch ended before this line was run.',
  },
} as const;

/** Returns the outcome of a line whose job ended. @param requestId a name for the line's request */
function outcomeOf(customId: string, requestId: string, job: JobView): LineOutcome {
  const response = (job.result as { response?: EngineResponse } | null)?.response;
  if (job.state === 'succeeded' && response !== undefined && response.status < 400) {
    const answer = { status_code: response.status, request_id: requestId, body: response.body };
    return {
      file: 'output',
      isTried: true,
      kind: null,
      text: lineText(customId, requestId, answer, null),
      usage: usageOf(response.body),
    };
  }
  const { http_status = response?.status, body = response?.body, code, message } = job.error ?? UNKNOWN;
  // The engine's own answer is what the caller would have received without the batch.
  const answer =
    http_status === undefined
      ? null
      : { status_code: http_status, request_id: requestId, body: body ?? null };
  const error = answer === null ? { code, message } : null;
  return {
    file: 'error',
    isTried: true,
    kind: answer === null ? code : String(answer.status_code),
    text: lineText(customId, requestId, answer, error),
    usage: NO_USAGE,
  };
}

/** Returns the outcome of a line that was not run. @param cause what the line waited for, a clause; null: its turn */
function notRun(
  customId: string,
  requestId: string,
  why: keyof typeof NOT_RUN,
  cause: string | null = null,
): LineOutcome {
  const { code, message } = NOT_RUN[why];
  const whole = cause === null ? message : `${message} It waited because ${cause}.`;
  const text = lineText(customId, requestId, null, { code, message: whole });
  return { file: 'error', isTried: false, kind: NOT_RUN[why].code, text, usage: NO_USAGE };
}

interface EngineResponse {
  status: number;
  body: unknown;
}

const UNKNOWN = {
  http_status: undefined,
  body: undefined,
  code: 'worker_error',
  message: 'The job of this line left no result.',
};

function lineText(
  custom_id: string,
  id: string,
  response: { status_code: number; request_id: string; body: unknown } | null,
  error: { code: string; message: string } | null,
): string {
  return `${writeJsonLine({ id, custom_id, response, error })}\n`;
}

/** Reads the tokens of an answer as chat completions and as responses report them. */
function usageOf(body: unknown): BatchUsage {
  const usage = Object(Object(body).usage) as Record<string, unknown>;
  const input = Object(usage.prompt_tokens_details ?? usage.input_tokens_details);
  const output = Object(usage.completion_tokens_details ?? usage.output_tokens_details);
  return {
    input_tokens: number(usage.prompt_tokens ?? usage.input_tokens),
    cached_tokens: number(input.cached_tokens),
    output_tokens: number(usage.completion_tokens ?? usage.output_tokens),
    reasoning_tokens: number(output.reasoning_tokens),
  };
}

function number(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

/**
 * Returns the outcome of a line whose job has settled. It follows from stored facts alone, since the line may be in its
 * file already, and must be counted as it was written there.
 * @param waited what lines of the batch waited for when it ended early, a clause; null: that is unknown
 */
export function settledOutcome(
  batch: Batch,
  line: StoredLine,
  job: JobView,
  waited: string | null,
): LineOutcome {
  const id = requestId(batch, line);
  const isCancelled = job.state === 'cancelled';
  const cause = job.leased_at === null ? waited : null;
  if (isCancelled && batch.status === 'cancelling') return notRun(line.custom_id, id, 'cancelled', cause);
  // Otherwise an operator cancelled the job itself, or purged the queue: the job's error says so.
  const isExpired = job.state === 'expired' || (isCancelled && batch.is_expiring);
  return isExpired ? notRun(line.custom_id, id, 'expired', cause) : outcomeOf(line.custom_id, id, job);
}

/** Returns the outcome of a line whose job the queue would never accept, or that names a model that nobody serves. */
export function refusal(
  batch: Batch,
  line: StoredLine,
  message: string,
  code = 'invalid_request',
): LineOutcome {
  const error = { message, code, retryable: false };
  return outcomeOf(line.custom_id, requestId(batch, line), {
    state: 'failed',
    result: null,
    error,
  } as JobView);
}

/**
 * Returns the outcome of a line for a model that nobody served when the batch was made, or null if the line can run.
 */
export function unservedOutcome(batch: Batch, line: StoredLine): LineOutcome | null {
  const unserved = batch.unserved?.find(({ model }) => model === line.model);
  return unserved ? refusal(batch, line, unserved.message, unserved.code) : null;
}

/**
 * Returns the outcome of a line that was not submitted when its batch ended.
 * @param cause what the line waited for; null: its turn
 */
export function notSubmitted(
  batch: Batch,
  line: StoredLine,
  why: keyof typeof NOT_RUN,
  cause: string | null,
): LineOutcome {
  return unservedOutcome(batch, line) ?? notRun(line.custom_id, requestId(batch, line), why, cause);
}

function requestId(batch: Batch, line: StoredLine): string {
  return `batch_req_${batch.id.slice('batch_'.length)}_${line.number}`;
}

/** The most kinds of errors that are counted separately. */
const MOST_KINDS = 20;

/** Counts a written line in the numbers of its batch. */
function count(batch: Batch, { file, isTried, kind, usage }: LineOutcome): void {
  if (file === 'output') {
    batch.output_lines += 1;
    batch.completed += 1;
  } else {
    batch.error_lines += 1;
    if (isTried) batch.failed += 1;
    const counts = batch.error_counts;
    const name =
      kind === null || (counts[kind] === undefined && Object.keys(counts).length >= MOST_KINDS)
        ? 'other'
        : kind;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  for (const name of Object.keys(batch.usage) as (keyof typeof usage)[]) batch.usage[name] += usage[name];
}

/** The most bytes that one call appends; a single line may have more. */
const APPEND_BYTES = 8 * 1024 * 1024;

/**
 * Records the outcomes of lines: lines already in their file are not added again, then one commit notes and counts all
 * of them.
 */
export async function record(
  { sql, files }: Pick<BatchPorts, 'sql' | 'files'>,
  { seq, batch }: StoredBatch,
  outcomes: readonly [StoredLine, LineOutcome][],
): Promise<void> {
  const bytes: { output?: number; error?: number } = {};
  for (const file of ['output', 'error'] as const) {
    const lines = outcomes
      .filter(([, outcome]) => outcome.file === file)
      .map(([{ number }, { text }]) => ({ key: number, bytes: new TextEncoder().encode(text) }));
    for (const some of inCalls(lines)) bytes[file] = await files.append(fileIdOf(batch, file), some);
  }
  // The batch is read again, since it may have been cancelled meanwhile.
  const stored = findBatch(sql, batch.id, null);
  if (stored === null) return;
  const lines = outcomes.map(([line]) => line);
  const done = new Set(moveLines(sql, seq, lines, 'done'));
  for (const [line, outcome] of outcomes) if (done.has(line)) count(stored.batch, outcome);
  stored.batch.output_bytes = bytes.output ?? stored.batch.output_bytes;
  stored.batch.error_bytes = bytes.error ?? stored.batch.error_bytes;
  saveBatch(sql, stored);
}

function fileIdOf(batch: Batch, file: 'output' | 'error'): string {
  return file === 'output' ? batch.output_file_id : batch.error_file_id;
}

function* inCalls<T extends { bytes: Uint8Array }>(lines: readonly T[]): Generator<T[]> {
  let call: T[] = [];
  let bytes = 0;
  for (const line of lines) {
    if (call.length > 0 && bytes + line.bytes.byteLength > APPEND_BYTES) {
      yield call;
      call = [];
      bytes = 0;
    }
    call.push(line);
    bytes += line.bytes.byteLength;
  }
  if (call.length > 0) yield call;
}
