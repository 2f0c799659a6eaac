import { asciiJson } from '../../protocol/index.ts';
import { bytesOf, type RequestAnswer, type Unserved, type WaitingRequest } from '../../queue/rpc.ts';

/**
 * How a caller's request crosses to its queue object: by `fetch`, since RPC carries 32 MiB at most, and a body may be
 * larger.
 */

/** Request header: JSON of `Asked`. */
const ASKED = 'x-asked';

interface Asked {
  job: Omit<WaitingRequest, 'payload'>;
  /** The payload, a character for each byte; left out: it is the body. */
  payload?: string;
}

/**
 * A payload of no more bytes goes in the header: reading a body is another event for the object, and streams on both
 * sides. A byte takes up to six characters there.
 */
const SHORT_BYTES = 4096;

/** What a queue object must be able to do for it. */
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

/** What such a call asks for. */
export async function readRequest(
  request: Request,
): Promise<WaitingRequest & { payload: Uint8Array<ArrayBuffer> }> {
  const { job, payload } = JSON.parse(request.headers.get(ASKED)!) as Asked;
  const bytes = payload === undefined ? new Uint8Array(await request.arrayBuffer()) : bytesIn(payload);
  return { ...job, payload: bytes };
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
