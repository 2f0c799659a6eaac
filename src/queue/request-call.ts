import { asciiJson, OPTIMISATIONS } from '../protocol/index.ts';
import { bytesOf, type RequestAnswer, type Unserved, type WaitingRequest } from './rpc.ts';

/**
 * How the gateway asks for a worker: by `fetch`, so that a queue object which holds the relay of its workers can
 * answer with the engine's answer itself, at the cost of one call.
 */

/** The host is a placeholder. */
const REQUEST_URL = 'https://queue/request';
/** Request header: JSON of `Asked`. */
const ASKED_HEADER = 'x-asked';
/** Response header: the body is the JSON of what the queue says, and no answer of an engine. */
const SAID_HEADER = 'x-queue-said';

/** Response header beside BROKEN_HEADER: the fence token of the attempt. */
export const BROKEN_FENCE_HEADER = 'x-broken-fence';

/** The engine's answer, or a response with BROKEN_HEADER, as a relay gives it. */
export interface Opened {
  kind: 'opened';
  response: Response;
}

/** What an object is asked. */
interface Asked {
  job: Omit<WaitingRequest, 'payload'>;
  /** Headers of the caller's response beside the engine's. */
  more: Record<string, string>;
  /** The payload, a character for each byte; left out: it is the body. */
  payload?: string;
}

/**
 * A payload of no more bytes goes in the header: reading a body is another event for the object, and streams on both
 * sides. A byte takes up to six characters there.
 */
const SHORT_BYTES = 4096;

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
  const bytes = bytesOf(payload);
  const isShort = OPTIMISATIONS.payloadInHeader && bytes.byteLength <= SHORT_BYTES;
  const asked: Asked = { job, more, ...(isShort && { payload: textOf(bytes) }) };
  const response = await queue.fetch(REQUEST_URL, {
    method: 'POST',
    headers: { [ASKED_HEADER]: asciiJson(asked) },
    ...(!isShort && { body: bytes }),
    redirect: 'manual',
  });
  if (!response.headers.has(SAID_HEADER)) return { kind: 'opened', response };
  return (await response.json()) as RequestAnswer | Unserved;
}

/** What such a call asks for; null: the request is none. */
export async function readRequest(
  request: Request,
): Promise<{ job: WaitingRequest; more: Asked['more'] } | null> {
  const header = request.url === REQUEST_URL ? request.headers.get(ASKED_HEADER) : null;
  if (header === null) return null;
  const { job, more, payload } = JSON.parse(header) as Asked;
  const bytes = payload === undefined ? new Uint8Array(await request.arrayBuffer()) : bytesIn(payload);
  return { job: { ...job, payload: bytes }, more };
}

/** A character for each byte. Not spread: that takes the bytes one by one from an iterator. */
function textOf(bytes: Uint8Array): string {
  return String.fromCharCode.apply(null, bytes as unknown as number[]);
}

/** @param text with a character for each byte */
function bytesIn(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

export function sayAnswer(answer: RequestAnswer | Unserved): Response {
  return Response.json(answer, { headers: { [SAID_HEADER]: '' } });
}
