import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { HttpError } from '../../../gateway/errors.ts';
import { systemClock, withTimeout } from '../../../process/clock.ts';

/** A server that refuses has this long to say why, ms. */
const WITHIN_MS = 1000;

/** A server's reason for its refusal. */
export interface Explanation {
  /** The code of its error; null: it has none. */
  code: string | null;
  /** The message of its error, or the text in place of one; empty where it does not say it in time. */
  message: string;
}

/** Reads what a server says of its refusal. */
export async function explanationOf(response: IncomingMessage): Promise<Explanation> {
  return explanationIn(await withTimeout(systemClock, WITHIN_MS, () => text(response)).catch(() => ''));
}

/** Reads what the body of a refusal says. */
export function explanationIn(body: string): Explanation {
  try {
    const { error } = JSON.parse(body) as { error: { code: string | null; message: string } };
    return { code: error.code, message: error.message };
  } catch {
    return { code: null, message: body };
  }
}

/**
 * Returns what callers are told where the owner refuses what their gateway process requests for them. A 503 is what the
 * owner tells callers of its own. Anything else concerns the gateway process: a worker that got the 401 of its gateway
 * would end.
 * @param wait the header Retry-After of the refusal
 */
export function errorForCallers(
  status: number,
  { code, message }: Explanation,
  wait: string | null | undefined,
): HttpError {
  const headers = { 'retry-after': wait ?? '1' };
  if (status === 503 && code !== null) return new HttpError(503, message, code, headers);
  const unfit = `The queue does not take what its gateway requests (HTTP ${status}); try again in a moment.`;
  return new HttpError(503, unfit, 'queue_restarting', headers);
}
