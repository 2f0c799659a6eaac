import { asciiJson } from '../protocol/index.ts';
import { ANSWER_HEADERS } from '../relay/calls.ts';
import { bytesOf, type RequestAnswer, type Unserved, type WaitingRequest } from './rpc.ts';

/**
 * How the gateway asks for a worker: by `fetch`, so that a queue object which holds the relay of its workers can
 * answer with the engine's answer itself, at the cost of one call.
 */

/** The host is a placeholder. */
const REQUEST_URL = 'https://queue/request';
/** Request header: JSON of the job without its payload, which is the body. */
const JOB_HEADER = 'x-job';
/** Response header: the body is the JSON of what the queue says, and no answer of an engine. */
const SAID_HEADER = 'x-queue-said';

/** Response header beside BROKEN_HEADER: the fence token of the attempt. */
export const BROKEN_FENCE_HEADER = 'x-broken-fence';

/** The engine's answer, or a response with BROKEN_HEADER, as a relay gives it. */
export interface Opened {
  kind: 'opened';
  response: Response;
}

/** What a queue object must be able to do for it. */
export interface RequestTarget {
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/** @param more headers of the caller's response beside the engine's */
export async function askForWorker(
  queue: RequestTarget,
  { payload, ...job }: WaitingRequest,
  more: Record<string, string>,
): Promise<RequestAnswer | Unserved | Opened> {
  const headers = { [JOB_HEADER]: asciiJson(job), [ANSWER_HEADERS]: asciiJson(more) };
  const response = await queue.fetch(REQUEST_URL, {
    method: 'POST',
    headers,
    body: bytesOf(payload),
    redirect: 'manual',
  });
  if (!response.headers.has(SAID_HEADER)) return { kind: 'opened', response };
  return (await response.json()) as RequestAnswer | Unserved;
}

/** The job that such a call asks for; null: the request is none. */
export async function readRequest(request: Request): Promise<WaitingRequest | null> {
  const job = request.url === REQUEST_URL ? request.headers.get(JOB_HEADER) : null;
  if (job === null) return null;
  return {
    ...(JSON.parse(job) as Omit<WaitingRequest, 'payload'>),
    payload: new Uint8Array(await request.arrayBuffer()),
  };
}

export function answerHeadersOf(request: Request): Record<string, string> {
  return JSON.parse(request.headers.get(ANSWER_HEADERS) ?? '{}');
}

export function sayAnswer(answer: RequestAnswer | Unserved): Response {
  return Response.json(answer, { headers: { [SAID_HEADER]: '' } });
}
