import type { AskedFor } from '../../asking/objects.ts';
import type { OpenedWith } from '../../fleet/live-viewers.ts';
import { asciiJson } from '../../protocol/index.ts';
import type { WorkerDial } from '../../queue/rpc.ts';

/**
 * What crosses to an object by `fetch`, where RPC cannot carry it: a WebSocket's upgrade, and an answer that its caller
 * may leave. What else the object is told goes in one header of JSON.
 */

/** Request header. A crossing sets it itself, so that no caller can. */
const TOLD = 'x-told';

/** What is told with a worker's upgrade, and with a viewer's. */
export type Told = WorkerDial | OpenedWith;

/** Passes a WebSocket's upgrade on. */
export function upgradeTelling(upgrade: Request, told: Told | null): Request {
  const headers = new Headers(upgrade.headers);
  headers.set(TOLD, asciiJson(told));
  return new Request(upgrade, { headers });
}

/** Returns what an upgrade tells. */
export function toldByUpgrade<T extends Told>(upgrade: Request): T {
  return toldIn(upgrade);
}

export function isUpgrade({ headers }: Request): boolean {
  return headers.get('upgrade')?.toLowerCase() === 'websocket';
}

/** Which answer a relay is asked for. */
interface WantedAnswer {
  stream: number;
  more: Record<string, string>;
  asked: AskedFor | null;
  /** It is a reader's, of a stored job. */
  isReplay: boolean;
}

/** Asks a relay for an answer. Dropping the call, or the body of its response, is leaving. */
export function answerRequest(wanted: WantedAnswer, signal?: AbortSignal): Request {
  // A redirect of the engine's is its answer; followed, it would lead into the relay. The host is a placeholder.
  const init = { redirect: 'manual', headers: { [TOLD]: asciiJson(wanted) } } as const;
  return new Request('https://relay/', signal ? { ...init, signal } : init);
}

export function wantedAnswer(request: Request): WantedAnswer {
  return toldIn(request);
}

function toldIn<T>({ headers }: Request): T {
  return JSON.parse(headers.get(TOLD)!) as T;
}
