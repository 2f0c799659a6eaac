import { EXIT, UserError } from '../process/index.ts';
import type { Scope } from '../settings/scopes.ts';

/** The queue that a command speaks to, and who speaks. */
export interface QueueTarget {
  url: string;
  token?: string | undefined;
  queueId?: string | undefined;
}

interface Request extends Omit<RequestInit, 'headers'> {
  headers?: Record<string, string>;
  /** What the token must allow, to be named where it is refused. */
  scope?: Scope;
}

/** It may be there again in a moment. */
export class UnreachableQueue extends UserError {}

/**
 * One request to a queue's HTTP API.
 * @returns an answer with a status of success, its body unread
 * @throws UnreachableQueue where the same request may succeed later; UserError where the queue refuses it
 */
export async function askQueue(
  { url, token, queueId }: QueueTarget,
  path: string,
  { scope, ...init }: Request = {},
): Promise<Response> {
  const headers = {
    ...init.headers,
    ...(token && { authorization: `Bearer ${token}` }),
    ...(queueId && { 'x-queue-id': queueId }),
  };
  let response: Response;
  try {
    response = await fetch(`${url.replace(/\/+$/, '')}${path}`, { ...init, headers });
  } catch (error) {
    const { message, cause } = error as Error;
    const why = cause instanceof Error && cause.message ? cause.message : message;
    throw new UnreachableQueue(
      `The queue at ${url} cannot be reached: ${why}. Start one with "npm start", or give its --url.`,
    );
  }
  if (response.ok) return response;
  const { status } = response;
  const refusal = `The queue refused (${status}): ${messageIn(await response.text()) ?? 'it does not say why'}`;
  if (status >= 500) throw new UnreachableQueue(refusal);
  if (status !== 401 && status !== 403) throw new UserError(refusal, EXIT.unexpected);
  throw new UserError(scope === undefined ? refusal : `${refusal} ${tokenHint(scope)}`, EXIT.deniedByQueue);
}

/** The same, for an answer in JSON; a body is sent as JSON. */
export async function askQueueJson<T>(
  target: QueueTarget,
  path: string,
  { body, ...init }: Omit<Request, 'body' | 'headers'> & { body?: unknown } = {},
): Promise<T> {
  const sent = body === undefined ? {} : { headers: JSON_TYPE, body: JSON.stringify(body) };
  return (await (await askQueue(target, path, { ...init, ...sent })).json()) as T;
}

function tokenHint(scope: Scope): string {
  return `A token with the scope ${scope} is enough: make one with "npx worker-vllm token --scope ${scope}", and give it as --token or CASOLA_API_TOKEN.`;
}

const JSON_TYPE = { 'content-type': 'application/json' };

function messageIn(text: string): string | null {
  try {
    const message = (JSON.parse(text) as { error?: { message?: unknown } }).error?.message;
    return typeof message === 'string' ? message : null;
  } catch {
    return null;
  }
}
