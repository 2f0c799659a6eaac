import { asciiJson } from '../../protocol/index.ts';
import { bytesOf, type RequestAnswer, type Unserved, type WaitingRequest } from '../../queue/rpc.ts';

/**
 * This file carries a caller's request to its queue object by `fetch`: RPC carries 32 MiB at most, and a body may be
 * larger.
 */

/** The request header that holds `Asked` as JSON. */
const ASKED = 'x-asked';

interface Asked {
  job: Omit<WaitingRequest, 'payload'>;
  /** The payload, a character for each byte; left out: the body is the payload. */
  payload?: string;
}

/**
 * A payload up to this many bytes goes in the header: reading a body costs another event for the object, and streams on
 * both sides. A byte takes up to six characters in the header.
 */
const SHORT_BYTES = 4096;

/** The part of a queue object's stub that a request crosses by. */
interface RequestTarget {
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/** Asks a queue object for a worker. */
export async function askForWorker(
  queue: RequestTarget,
  { payload, ...job }: WaitingRequest,
): Promise<RequestAnswer | Unserved> {
  const bytes = bytesOf(payload);
  const isShort = bytes.byteLength <= SHORT_BYTES;
  const asked: Asked = { job, ...(isShort && { payload: textOf(bytes) }) };
  // The host is a placeholder.
  const response = await queue.fetch('https://queue/', {
    method: 'POST',
    headers: { [ASKED]: asciiJson(asked) },
    ...(!isShort && { body: bytes }),
  });
  return (await response.json()) as RequestAnswer | Unserved;
}

/** Reads the request that `askForWorker` sent. */
export async function readRequest(
  request: Request,
): Promise<WaitingRequest & { payload: Uint8Array<ArrayBuffer> }> {
  const { job, payload } = JSON.parse(request.headers.get(ASKED)!) as Asked;
  const bytes = payload === undefined ? new Uint8Array(await request.arrayBuffer()) : bytesIn(payload);
  return { ...job, payload: bytes };
}

/** Returns a character for each byte. `apply` is faster than a spread, which takes the bytes from an iterator. */
function textOf(bytes: Uint8Array): string {
  return String.fromCharCode.apply(null, bytes as unknown as number[]);
}

/** @param text with a character for each byte */
function bytesIn(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}
