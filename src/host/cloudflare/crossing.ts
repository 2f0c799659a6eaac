import type { AskedFor } from '../../asking/objects.ts';
import type { OpenedWith } from '../../fleet/live-viewers.ts';
import { asciiJson } from '../../protocol/index.ts';
import type { WorkerDial } from '../../queue/rpc.ts';

/**
 * This file carries to an object by `fetch` what RPC cannot carry: a WebSocket's upgrade, and an answer that its caller
 * may leave. Further arguments go in one header of JSON.
 */

/** The request header of the arguments. Each crossing sets it, so that no caller can. */
const TOLD = 'x-told';

/** The arguments of a worker's upgrade, and of a viewer's. */
export type Told = WorkerDial | OpenedWith;

/** Makes the request that passes a WebSocket's upgrade on to an object. */
export function upgradeTelling(upgrade: Request, told: Told | null): Request {
  const headers = new Headers(upgrade.headers);
  headers.set(TOLD, asciiJson(told));
  return new Request(upgrade, { headers });
}

/** Returns the arguments of an upgrade. */
export function toldByUpgrade<T extends Told>(upgrade: Request): T {
  return toldIn(upgrade);
}

export function isUpgrade({ headers }: Request): boolean {
  return headers.get('upgrade')?.toLowerCase() === 'websocket';
}

/** The answer that a relay is asked for. */
interface WantedAnswer {
  stream: number;
  more: Record<string, string>;
  asked: AskedFor | null;
  /** Whether a reader of a stored job asks for it. */
  isReplay: boolean;
}

/** Makes the request for an answer to a relay. A caller leaves by dropping the call or the body of its response. */
export function answerRequest(wanted: WantedAnswer, signal?: AbortSignal): Request {
  // A redirect by the engine is its answer; following it would lead into the relay. The host is a placeholder.
  const init = { redirect: 'manual', headers: { [TOLD]: asciiJson(wanted) } } as const;
  return new Request('https://relay/', signal ? { ...init, signal } : init);
}

export function wantedAnswer(request: Request): WantedAnswer {
  return toldIn(request);
}

function toldIn<T>({ headers }: Request): T {
  return JSON.parse(headers.get(TOLD)!) as T;
}
