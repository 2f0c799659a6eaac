import { reasonOf } from '../process/http.ts';
import { EXIT, UserError } from '../process/index.ts';
import { fieldsOf, jsonOrText } from '../protocol/index.ts';
import type { Scope } from '../settings/token-entry.ts';

/** The queue that a command calls, and the token for it. */
export interface QueueTarget {
  url: string;
  token?: string | undefined;
  queueId?: string | undefined;
}

interface Request {
  method?: 'POST' | 'PATCH' | 'DELETE';
  /** The body, sent as JSON. */
  body?: unknown;
  /** The scope that the token needs, which the error names if the token is refused. */
  scope?: Scope;
}

/** The error of a queue that did not answer, but may answer in a moment. */
export class UnreachableQueue extends UserError {}

/**
 * Sends one request to a queue's HTTP API, and returns its answer's JSON.
 * @throws UnreachableQueue if the same request may succeed later; UserError if the queue refuses it
 */
export async function askQueueJson<T>(target: QueueTarget, path: string, request: Request = {}): Promise<T> {
  return (await (await askQueue(target, path, request)).json()) as T;
}

/**
 * Sends one request to a queue's HTTP API, and returns its answer, whose body is still to be read.
 * @throws as `askQueueJson` does
 */
export async function askQueue(
  { url, token, queueId }: QueueTarget,
  path: string,
  { scope, body, ...init }: Request = {},
): Promise<Response> {
  const headers = {
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(token && { authorization: `Bearer ${token}` }),
    ...(queueId && { 'x-queue-id': queueId }),
  };
  let response: Response;
  try {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    response = await fetch(`${url.replace(/\/+$/, '')}${path}`, { ...init, ...sent, headers });
  } catch (error) {
    throw unreachable(url, error as Error);
  }
  if (response.ok) return response;
  throw refusal(response.status, messageIn(await response.text()), scope);
}

/** Returns the error of a command whose queue did not answer. */
export function unreachable(url: string, error: Error): UnreachableQueue {
  return new UnreachableQueue(
    `The queue at ${url} cannot be reached: ${reasonOf(error)}. Start one with "npx worker-vllm up", or give its --url.`,
  );
}

/**
 * Returns the error of a command whose queue answered with an error.
 * @param message the message in the answer's body
 * @param scope the scope that the token needs
 */
export function refusal(status: number, message = 'The queue does not say why.', scope?: Scope): UserError {
  const text = `${message.replace(/([^.!?])$/, '$1.')} (The queue answered ${status}.)`;
  if (status >= 500) return new UnreachableQueue(text, EXIT.unexpected);
  if (status !== 401 && status !== 403) return new UserError(text, EXIT.unexpected);
  return new UserError(scope === undefined ? text : `${text} ${tokenHint(scope)}`, EXIT.deniedByQueue);
}

function tokenHint(scope: Scope): string {
  return `A token with the scope ${scope} is enough: make one with "npx worker-vllm token create --scope ${scope}", and give it as --token or CASOLA_API_TOKEN.`;
}

function messageIn(text: string): string | undefined {
  const { message } = fieldsOf(fieldsOf(jsonOrText(text)).error);
  return typeof message === 'string' ? message : undefined;
}
