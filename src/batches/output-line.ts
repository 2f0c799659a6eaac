import { type JobView, writeJsonLine } from '../protocol/index.ts';
import type { BatchUsage } from './batch.ts';

/** The outcome of one line, as it is written. */
export interface LineOutcome {
  /** The file that the line is written to. */
  file: 'output' | 'error';
  /** True if the line was tried: a line that was never run counts neither as completed nor as failed. */
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
export function outcomeOf(customId: string, requestId: string, job: JobView): LineOutcome {
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
  // The engine's own answer is what the caller would have got without the batch.
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
export function notRun(
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
