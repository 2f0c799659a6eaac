import type { RequestHead } from './env.ts';

/** The address that was parsed last: most requests of a queue are for the same one. */
let newest: { text: string; parsed: URL } | null = null;

/** Returns the parsed address of a request, which nobody may change. */
export function addressOf({ url }: Pick<RequestHead, 'url'>): Readonly<URL> {
  if (newest?.text !== url) newest = { text: url, parsed: new URL(url) };
  return newest.parsed;
}
