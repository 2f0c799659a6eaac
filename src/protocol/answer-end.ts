import { engineMessage } from './api-errors.ts';
import { type Dialect, engineRoute } from './engine-routes.ts';
import { eventFields } from './event-stream.ts';
import { fieldsOf, isObject } from './fields.ts';
import { engineJson } from './kept-json.ts';

/**
 * Decides for all kinds of engines what ends an answer and what is an error in it, in a stream or in one piece
 * (test/support/recorded-streams has what each engine writes).
 *
 * - A stream is finished by its closing event. Without one it is finished if every choice has given a reason, or a
 *   message its reason to stop, and the body ended in order: TGI, ik_llama.cpp and mlc-llm write no `[DONE]`.
 * - An answer has failed with an `error` at an event's top or in a choice, with `object: "error"`, an event of that
 *   name or type, or the reason "error".
 * - An answer was given up if its reason means that the engine did not get to the end.
 * - Any other answer was cut off.
 */

/**
 * The finish reasons of generations that were given up: vLLM's, FastDeploy's for one that it lost in a recovery, and
 * two of TensorRT-LLM's.
 */
const GIVEN_UP: readonly string[] = ['abort', 'recover_stop', 'cancelled', 'timeout'];

/** Matches finish reasons that mean an error, also with a word before it: GLM's servers say `network_error`. */
const ERROR_REASON = /^(?:\w+_)?error$/i;

/** HTTP statuses of errors that engines name without a status; all other errors are the engine's fault. */
const STATUS_OF: Readonly<Record<string, number>> = {
  // The next names are Anthropic's and OpenAI's.
  invalid_request_error: 400,
  invalid_prompt: 400,
  context_length_exceeded: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  overloaded_error: 503,
  // The next names are vLLM's and SGLang's, then TGI's.
  BadRequestError: 400,
  NotFoundError: 404,
  validation: 422,
  overloaded: 429,
};

/** An error that an engine reports within its answer. */
export interface EngineError {
  /** The error as the engine wrote it; a text becomes the message of an object. */
  error: unknown;
  /** The HTTP status that the engine would have answered with, had it known of the error before it began. */
  status: number;
}

/** The state of the answer according to one event of a stream. */
export interface EventSays {
  failed: EngineError | null;
  /** Whether clients of the API see the error when they read the event. */
  isRaised: boolean;
  isGivenUp: boolean;
  /** The numbers of the choices that end with this event; a message counts as one. */
  finished: readonly number[];
}

const NOTHING: EventSays = { failed: null, isRaised: false, isGivenUp: false, finished: [] };

/**
 * Reads one event of a stream.
 * @param event the event's text
 * @param dialect the API that the stream's reader speaks
 * @param known JSON that was found in the event and parsed already; null: none was
 */
export function readEvent(
  event: string,
  dialect: Dialect,
  known: { json: string; data: unknown } | null = null,
): EventSays {
  const { name, data, comment, isOdd } = eventFields(event);
  if (data === '[DONE]' || (data === '' && name !== 'error')) return NOTHING;
  // Dynamo reports an error in a comment; clients do not see an event without data.
  if (data === '')
    return { ...NOTHING, failed: engineError(comment === '' ? NO_REASON : { message: comment }) };
  const value = known?.json === data ? known.data : (engineJson(data)?.value ?? data);
  const isInstead = dialect === 'openai' && name === null && isObject(value) && isOther(value, 'choices');
  const failed = errorOf(value, name) ?? (isInstead ? noAnswer(value) : null);
  // OpenAI's clients look for an `error` at the top; clients of the newer APIs look at an event's name and type.
  const isSeen = dialect === 'openai' ? isSaid(fieldsOf(value).error) : true;
  return {
    failed,
    isRaised: failed !== null && isSeen && !isOdd,
    isGivenUp: choicesOf(value).some(({ finish_reason }) => GIVEN_UP.includes(String(finish_reason))),
    finished: finishedIn(value),
  };
}

/** Reads an answer in one piece. @param path the path of the request @param body parsed if it was JSON */
export function readWholeAnswer(path: string, body: unknown): Pick<EventSays, 'failed' | 'isGivenUp'> {
  const { object, status, error } = fieldsOf(body);
  const isFailedResponse = object === 'response' && status === 'failed' && !isSaid(error);
  const failed = isFailedResponse ? engineError(NO_REASON) : errorOf(body, null);
  return {
    failed: failed ?? (isNoAnswer(path, body) ? noAnswer(body) : null),
    isGivenUp: choicesOf(body).some(({ finish_reason }) => GIVEN_UP.includes(String(finish_reason))),
  };
}

/** Returns whether a body lacks the list that answers of its route have. */
function isNoAnswer(path: string, body: unknown): boolean {
  const list = engineRoute(path)?.list ?? null;
  return list !== null && (!isObject(body) || isOther(body, list));
}

/** Returns whether an object has an error in place of this list. */
function isOther(body: Record<string, unknown>, list: string): boolean {
  if (Array.isArray(body[list])) return false;
  return engineMessage(body) !== null || isSaid(body.errors) || body.success === false;
}

/**
 * Makes an error of a body that is no answer: an error in an unknown form, the page of a proxy, a part of an answer, or
 * nothing.
 */
export function noAnswer(body: unknown): EngineError {
  const text = typeof body === 'string' ? body.trim() : (engineMessage(body) ?? JSON.stringify(body));
  const said = text === '' ? 'its body is empty' : `it said ${text.slice(0, 200)}`;
  const message = `the engine answered with a status of success, but with no answer of this route: ${said}`;
  return engineError({ message, ...(isObject(body) && { code: body.code ?? body.status }) });
}

/** Returns how many choices a request asks for: `n` for each of its prompts. @param body parsed */
export function choicesAsked(body: unknown): number {
  const { n, prompt } = fieldsOf(body);
  const each = Number.isSafeInteger(n) && Number(n) > 0 ? Number(n) : 1;
  const isList = Array.isArray(prompt) && typeof prompt[0] !== 'number';
  return isList ? each * Math.max(1, prompt.length) : each;
}

/**
 * Returns whether a finish reason ends a choice; the empty reason that some engines write into every event does not.
 */
export function isFinish(reason: unknown): boolean {
  return isObject(reason) || (typeof reason === 'string' && reason !== '');
}

const NO_REASON = { message: 'the engine ended the answer as failed, and does not say why' };

/** Returns the error in the data of an event or in a whole answer, or null. */
function errorOf(given: unknown, name: string | null): EngineError | null {
  // Gemini's servers put an error into a list.
  const data = Array.isArray(given) && given.length === 1 ? (given as unknown[])[0] : given;
  if (!isObject(data)) return name === 'error' ? engineError({ message: String(data).slice(0, 1000) }) : null;
  const { error, object, type, response } = data;
  if (isSaid(error)) return engineError(asObject(error, data));
  if (type === 'response.failed' || type === 'response.incomplete') {
    // A response that is only incomplete has reached a limit, and that is a result.
    const said = fieldsOf(response).error;
    if (isSaid(said)) return engineError(asObject(said, {}));
    return type === 'response.failed' ? engineError(NO_REASON) : null;
  }
  if (object === 'error' || type === 'error' || name === 'error') return engineError(data);
  const choice = choicesOf(data).find((one) => isSaid(one.error) || isErrorReason(one.finish_reason));
  if (choice === undefined) return null;
  return engineError(isSaid(choice.error) ? asObject(choice.error, {}) : NO_REASON);
}

/** Returns whether the value is an error: where there is none, engines write `"error": null` or an empty one. */
function isSaid(error: unknown): boolean {
  if (typeof error === 'object' && error !== null) return Object.keys(error).length > 0;
  return Boolean(error);
}

function isErrorReason(reason: unknown): boolean {
  return typeof reason === 'string' && ERROR_REASON.test(reason);
}

/**
 * Makes an object of an error. TGI writes a text, and its kind beside it; other engines write `true` or a number, and
 * the message beside it.
 */
function asObject(error: unknown, beside: Record<string, unknown>): unknown {
  if (typeof error === 'object') return error;
  const { error_type: type = beside.type, code = typeof error === 'number' ? error : undefined } = beside;
  const message = typeof error === 'string' ? error : engineMessage({ ...beside, error: undefined });
  return {
    ...(message !== null && { message }),
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
  };
}

function engineError(error: unknown): EngineError {
  const { code, type, status, http_status_code } = fieldsOf(error);
  const told = [code, status, http_status_code].map(Number).find(isErrorStatus);
  return { error, status: told ?? STATUS_OF[String(code)] ?? STATUS_OF[String(type)] ?? 500 };
}

function isErrorStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 400 && status <= 599;
}

/** Returns the message of an error, for people. */
export function messageOf({ error }: EngineError): string {
  return engineMessage({ error }) ?? NO_REASON.message;
}

/** Returns the choices of an answer; an answer without a list of them may be a choice itself. */
function choicesOf(data: unknown): Record<string, unknown>[] {
  if (!isObject(data)) return [];
  return Array.isArray(data.choices) ? data.choices.filter(isObject) : [data];
}

function finishedIn(data: unknown): number[] {
  const { type, delta } = fieldsOf(data);
  if (type === 'message_delta') return isFinish(fieldsOf(delta).stop_reason) ? [0] : [];
  return choicesOf(data)
    .filter(({ finish_reason }) => isFinish(finish_reason))
    .map(({ index }) => Number(index ?? 0));
}
