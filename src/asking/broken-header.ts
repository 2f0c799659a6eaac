import type { BrokenReason } from '../protocol/index.ts';

/**
 * The response header of a stream that broke before it gave anything: a JSON BrokenReason. Another attempt may then be
 * made without the caller noticing.
 */
export const BROKEN_HEADER = 'x-relay-broken';

/** Returns why the stream of a relay's response broke before it gave anything, or null where it has opened. */
export function brokenOf({ headers }: Response): BrokenReason | null {
  const broken = headers.get(BROKEN_HEADER);
  return broken === null ? null : (JSON.parse(broken) as BrokenReason);
}
