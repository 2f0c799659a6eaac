import type { AskedFor } from '../../asking/objects.ts';
import type { OpenedWith } from '../../fleet/live-viewers.ts';
import { asciiJson } from '../../protocol/index.ts';
import {
  bytesOf,
  type RequestAnswer,
  type Unserved,
  type WaitingRequest,
  type WorkerDial,
} from '../../queue/rpc.ts';

/**
 * This file carries to an object by `fetch` what RPC cannot carry: a WebSocket's upgrade, an answer that its caller may
 * leave, and a caller's request, since RPC carries at most 32 MiB. Further arguments go in one header of JSON.
 */

/** The request header with the arguments. Each crossing sets it, so that no caller can. */
const ARGUMENTS = 'x-arguments';

/** The arguments of a worker's upgrade, or of a viewer's. */
type UpgradeArguments = WorkerDial | OpenedWith;

/** Makes the request that passes a WebSocket's upgrade on to an object. */
export function upgradeWith(upgrade: Request, given: UpgradeArguments | null): Request {
  const headers = new Headers(upgrade.headers);
  headers.set(ARGUMENTS, asciiJson(given));
  return new Request(upgrade, { headers });
}

/** Returns the arguments of an upgrade. */
export function argumentsOfUpgrade<T extends UpgradeArguments>(upgrade: Request): T {
  return argumentsIn(upgrade);
}

export function isUpgrade({ headers }: Request): boolean {
  return headers.get('upgrade')?.toLowerCase() === 'websocket';
}

/** The answer that a relay is asked for. */
interface WantedAnswer {
  stream: number;
  more: Record<string, string>;
  asked: AskedFor | null;
  /** Whether a reader of a stored job requests it. */
  isReplay: boolean;
}

/** Makes the request to a relay for an answer. A caller leaves by dropping the call or the body of its response. */
export function answerRequest(wanted: WantedAnswer, signal?: AbortSignal): Request {
  // A redirect by the engine is its answer; following it would lead into the relay. The host is a placeholder.
  const init = { redirect: 'manual', headers: { [ARGUMENTS]: asciiJson(wanted) } } as const;
  return new Request('https://relay/', signal ? { ...init, signal } : init);
}

export function wantedAnswer(request: Request): WantedAnswer {
  return argumentsIn(request);
}

function argumentsIn<T>({ headers }: Request): T {
  return JSON.parse(headers.get(ARGUMENTS)!) as T;
}

/** The request header that holds `Asked` as JSON. */
const ASKED = 'x-asked';

interface Asked {
  job: Omit<WaitingRequest, 'payload'>;
  /** The payload, one character for each byte; left out: the body is the payload. */
  payload?: string;
}

/**
 * A payload of up to this many bytes goes in the header: reading a body costs another event for the object, and streams
 * on both sides. A byte takes up to six characters in the header.
 */
const SHORT_BYTES = 4096;

/** The part of a queue object's stub through which a request crosses. */
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

/** Returns one character for each byte. `apply` is faster than a spread, which takes the bytes from an iterator. */
function textOf(bytes: Uint8Array): string {
  return String.fromCharCode.apply(null, bytes as unknown as number[]);
}

/** Returns the bytes of a text. @param text has one character for each byte */
function bytesIn(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}
