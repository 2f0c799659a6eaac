import type { Agent } from 'undici';

/** One streamed answer, as it arrived; ms since the process began. `firstAt`: its first event. */
export interface Timed {
  askedAt: number;
  firstAt: number;
  endedAt: number;
}

const NEWLINE = 10;
const END_MARK = 'data: [DONE]\n\n';

/**
 * Asks for one streamed chat completion and reads it whole.
 * @param gaps collects the time between events, ms
 * @throws Error when it is not answered with a whole stream
 */
export function streamOnce(
  agent: Agent,
  origin: string,
  body: string,
  gaps: number[],
  token?: string,
): Promise<Timed> {
  return new Promise((resolve, reject) => {
    const timed: Timed = { askedAt: performance.now(), firstAt: 0, endedAt: 0 };
    let status = 0;
    let lastAt = 0;
    let tail = '';
    const request = {
      origin,
      path: '/v1/chat/completions',
      method: 'POST' as const,
      headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
      body,
    };
    agent.dispatch(request, {
      onRequestStart: () => {},
      onResponseStart: (_controller, statusCode) => {
        status = statusCode;
      },
      onResponseData: (_controller, chunk) => {
        const now = performance.now();
        // Until there is a token a caller may be kept waiting with comments.
        if (timed.firstAt === 0 && chunk.includes('data:')) timed.firstAt = now;
        const events = timed.firstAt === 0 ? 0 : countEvents(chunk);
        if (lastAt > 0 && events > 0) gaps.push(now - lastAt);
        for (let extra = 1; extra < events; extra++) gaps.push(0);
        if (events > 0) lastAt = now;
        tail = (tail + chunk.subarray(-END_MARK.length).toString('latin1')).slice(-END_MARK.length);
      },
      onResponseEnd: () => {
        timed.endedAt = performance.now();
        if (status === 200 && tail === END_MARK) resolve(timed);
        else reject(new Error(`${origin} answered ${status}, ending in ${JSON.stringify(tail)}`));
      },
      onResponseError: (_controller, error) => reject(error),
    });
  });
}

/** Server-sent events end with an empty line. */
function countEvents(chunk: Buffer): number {
  let events = 0;
  for (let at = chunk.indexOf('\n\n'); at >= 0; at = chunk.indexOf('\n\n', at + 2)) events += 1;
  // An end that was cut in two.
  if (events === 0 && chunk[0] === NEWLINE) return 1;
  return events;
}
