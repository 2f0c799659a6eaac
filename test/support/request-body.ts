import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';

/**
 * Returns the body of a request, or null where its sender is gone before the end. A test that kills the sender would
 * otherwise end with a rejection that nobody handles, which fails the run though all of its tests pass.
 */
export async function bodyOf(request: IncomingMessage): Promise<string | null> {
  return await text(request).catch(() => null);
}
