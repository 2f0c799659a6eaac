import type { Fetch } from '../../../src/process/http.ts';
import type { CallFault } from './fake-provider.ts';

export interface FakeRequest {
  method: string;
  /** The path without the part that all paths of the interface share. */
  path: string;
  query: URLSearchParams;
  /** Parsed; undefined without one. */
  body: unknown;
  headers: Headers;
}

/** Returns the driver's network: the fake answers every request, whatever its host. */
export function fetchFrom(base: string, answer: (request: FakeRequest) => Response): Fetch {
  return async (address, init) => {
    init?.signal?.throwIfAborted();
    const url = new URL(address);
    return answer({
      method: init?.method ?? 'GET',
      path: url.pathname.startsWith(base) ? url.pathname.slice(base.length) : url.pathname,
      query: url.searchParams,
      body: typeof init?.body === 'string' ? JSON.parse(init.body) : undefined,
      headers: new Headers(init?.headers),
    });
  };
}

/** @throws TypeError as `fetch` does where nobody listens */
export function refuseIfDown(fault: CallFault): void {
  if (fault?.fault !== 'down') return;
  throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') });
}
