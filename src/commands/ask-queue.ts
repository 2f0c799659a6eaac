import { reasonOf } from '../process/http.ts';
import { EXIT, UserError } from '../process/index.ts';
import { fieldsOf, jsonOrText } from '../protocol/index.ts';
import type { Scope } from '../settings/scopes.ts';

/** The queue that a command speaks to, and who speaks. */
export interface QueueTarget {
  url: string;
  token?: string | undefined;
  queueId?: string | undefined;
}

interface Request {
  method?: 'POST' | 'PATCH' | 'DELETE';
  /** Sent as JSON. */
  body?: unknown;
  /** What the token must allow, to be named where it is refused. */
  scope?: Scope;
}

/** It may be there again in a moment. */
export class UnreachableQueue extends UserError {}

/**
 * One request to a queue's HTTP API, answered in JSON.
 * @throws UnreachableQueue where the same request may succeed later; UserError where the queue refuses it
 */
export async function askQueueJson<T>(
  { url, token, queueId }: QueueTarget,
  path: string,
  { scope, body, ...init }: Request = {},
): Promise<T> {
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
  if (response.ok) return (await response.json()) as T;
  throw refusal(response.status, messageIn(await response.text()), scope);
}

/** The error of a command whose queue did not answer. */
export function unreachable(url: string, error: Error): UnreachableQueue {
  return new UnreachableQueue(
    `The queue at ${url} cannot be reached: ${reasonOf(error)}. Start one with "npm start", or give its --url.`,
  );
}

/**
 * The error of a command whose queue answered with an error.
 * @param message of the answer's body
 * @param scope that the token needs
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
