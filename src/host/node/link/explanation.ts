import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { systemClock, withTimeout } from '../../../process/clock.ts';

/** A server that refuses has this long to say why, ms. */
const WITHIN_MS = 1000;

/** Returns what a server says of its refusal, in OpenAI's shape of errors; null where it does not say it in time. */
export async function explanationOf(
  response: IncomingMessage,
): Promise<{ code: string | null; message: string | null }> {
  try {
    const read = withTimeout(systemClock, WITHIN_MS, () => text(response));
    const { error } = JSON.parse(await read) as { error?: { code?: unknown; message?: unknown } };
    const textOr = (value: unknown) => (typeof value === 'string' ? value : null);
    return { code: textOr(error?.code), message: textOr(error?.message) };
  } catch {
    return { code: null, message: null };
  }
}
