import {
  engineMessage,
  eventData,
  fieldsOf,
  type JobView,
  splitEvents,
  type Usage,
} from '../../../protocol/index.ts';
import { jsonObject, type ResponseError } from '../response-object.ts';
import { type Fields, isFinal } from '../types.ts';

/** Says what the end of its job makes of a response in the background. Nothing here reads or writes. */

/** The end of the job of a response. */
export type JobEnd =
  | {
      kind: 'response';
      /** The Response object of the engine. */
      response: Fields;
      /** The events of the engine between the beginning and the end of the response; empty if it did not stream. */
      events: Fields[];
    }
  | {
      kind: 'failed';
      error: ResponseError;
      /** The tokens that the attempts used; undefined: they are not known. */
      usage?: Usage | undefined;
    }
  | { kind: 'cancelled'; usage: Usage };

/** Returns what a settled job has come to. */
export function endOfJob(job: JobView): JobEnd {
  if (job.state === 'cancelled') return { kind: 'cancelled', usage: job.error?.usage ?? NOTHING_USED };
  if (job.state === 'expired') return { kind: 'failed', error: errorOf(job), usage: job.error?.usage };
  if (job.state !== 'succeeded') return { kind: 'failed', error: errorOf(job), usage: usedBy(job) };
  const { status, body } = fieldsOf(fieldsOf(job.result).response);
  if (Number(status) >= 300) return failed(engineMessage(body) ?? 'The engine refused the request.');
  const events: Fields[] = typeof body === 'string' ? eventsIn(body) : [];
  const response: Fields = typeof body === 'string' ? lastResponse(events) : fieldsOf(body);
  if (response.object !== 'response') return failed("The engine's answer ended without a response.");
  if (!isFinal(String(response.status)) || response.status === 'cancelled')
    return failed('The engine ended the response before it was finished.');
  return { kind: 'response', response, events: events.filter(({ type }) => isOutput(type)) };
}

/** The usage of a response that no engine has begun. */
export const NOTHING_USED: Usage = { prompt_tokens: 0, completion_tokens: 0 };

/** Returns the tokens that the failed attempts at a job used, as the queue counts them; undefined: none are known. */
export function usedBy({ attempt_errors }: Pick<JobView, 'attempt_errors'>): Usage | undefined {
  const known = attempt_errors.flatMap(({ usage }) => (usage === undefined ? [] : [usage]));
  if (known.length === 0) return undefined;
  const sum = (count: (usage: Usage) => number | undefined) =>
    known.reduce((all, usage) => all + (count(usage) ?? 0), 0);
  return {
    prompt_tokens: sum((usage) => usage.prompt_tokens),
    completion_tokens: sum((usage) => usage.completion_tokens),
    cached_tokens: sum((usage) => usage.cached_tokens),
    reasoning_tokens: sum((usage) => usage.reasoning_tokens),
  };
}

/** Returns whether an event is part of a response's output, which is neither its beginning nor its end. */
export function isOutput(type: unknown): boolean {
  return typeof type === 'string' && type.startsWith('response.') && !OF_THE_WHOLE.test(type);
}

/** Matches the types of events that concern the whole response. */
const OF_THE_WHOLE = /^response\.(?:created|queued|in_progress|completed|incomplete|failed)$/;

/** Returns the events of a text, which begins and ends between two of them; what is no event is left out. */
export function eventsIn(text: string): Fields[] {
  return splitEvents(text).flatMap((event): Fields[] => {
    const data = jsonObject(eventData(event));
    return data === null ? [] : [data];
  });
}

function lastResponse(events: readonly Fields[]): Fields {
  return fieldsOf(events.findLast(({ type }) => OF_THE_WHOLE.test(String(type)))?.response);
}

function failed(message: string): JobEnd {
  return { kind: 'failed', error: { code: 'server_error', message } };
}

/** The codes of failures for which the request is to blame. */
const FAULTS_OF_PROMPT = new Set(['invalid_request', 'engine_refused', 'too_large', 'unsupported_by_worker']);

function errorOf({ state, error }: JobView): ResponseError {
  if (error === null) return { code: 'server_error', message: `The job of the response is ${state}.` };
  const message = engineMessage(error.body) ?? error.message;
  if (error.http_status === 429) return { code: 'rate_limit_exceeded', message };
  return { code: FAULTS_OF_PROMPT.has(error.code) ? 'invalid_prompt' : 'server_error', message };
}
