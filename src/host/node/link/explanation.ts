import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { systemClock, withTimeout } from '../../../process/clock.ts';

/** A server that refuses has this long to say why, ms. */
const WITHIN_MS = 1000;

/** What a server says of its refusal. */
export interface Explanation {
  /** The code of its error; null: it has none. */
  code: string | null;
  /** The message of its error, or the text in place of one; empty where it does not say it in time. */
  message: string;
}

/** Reads what a server says of its refusal. */
export async function explanationOf(response: IncomingMessage): Promise<Explanation> {
  const message = await withTimeout(systemClock, WITHIN_MS, () => text(response)).catch(() => '');
  try {
    const { error } = JSON.parse(message) as { error: { code: string | null; message: string } };
    return { code: error.code, message: error.message };
  } catch {
    return { code: null, message };
  }
}
