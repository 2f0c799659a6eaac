import { matchesPattern } from '../protocol/text.ts';

/** The longest time limit, seconds. */
const LONGEST_SECONDS = 86_400;

/** Time limits by route; the first entry that matches counts. */
export interface RequestTimeouts {
  /** Returns the time limit of a path, ms, or undefined. */
  of(path: string): number | undefined;
}

/**
 * Reads `/v1/embeddings=30,/v1/audio/*=300,*=600`: seconds by path, `*` for any characters.
 * @throws Error that says what is wrong
 */
export function parseRequestTimeouts(text: string): RequestTimeouts {
  const entries = text.split(',').flatMap((part) => {
    const entry = part.trim();
    if (entry === '') return [];
    const [, pattern, number] = /^([/*]\S*?)\s*=\s*(\d+(?:\.\d+)?)$/.exec(entry) ?? [];
    const seconds = Number(number);
    if (pattern === undefined || !(seconds > 0 && seconds <= LONGEST_SECONDS)) {
      throw new Error(
        `expected path=seconds, comma-separated, such as "/v1/embeddings=30,*=600", with up to ${LONGEST_SECONDS} seconds; got "${entry}"`,
      );
    }
    return [{ pattern, ms: seconds * 1000 }];
  });
  return { of: (path) => entries.find(({ pattern }) => matchesPattern(pattern, path))?.ms };
}
