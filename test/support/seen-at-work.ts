import { until } from './poll.ts';

/** Something long that a test has begun. */
export interface Begun {
  /** Says how it ended, "succeeded" or the refusal, and null while it goes on. */
  howOver(): string | null | Promise<string | null>;
}

/**
 * Begins something long and waits until it is seen at work. An engine without a pace may make a whole answer between
 * two looks of a test that is starved of its CPU: what was over before anybody saw it is begun again.
 * @param begin throws where it is refused
 * @param what the state waited for, named in the failure with how the last one ended: "it runs"
 * @returns the one that was seen
 */
export async function seenAtWork<T extends Begun>(
  begin: () => Promise<T>,
  isSeen: (begun: T) => boolean | Promise<boolean>,
  what: string,
  { timeoutMs = 60_000 }: { timeoutMs?: number } = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let missed = '';
  for (let count = 1; ; count += 1) {
    const begun = await begin();
    const look = async (): Promise<{ over: string | null } | null> => {
      // Asked first: what ends during the look may have been seen in it.
      const over = await begun.howOver();
      if (await isSeen(begun)) return { over: null };
      return over === null ? null : { over };
    };
    const left = Math.max(0, deadline - performance.now());
    const { over } = await until(look, `${what}${missed}`, { timeoutMs: left });
    if (over === null) return begun;
    missed = `; ${count} were over before they were seen, the last one: ${over}`;
    if (performance.now() >= deadline) throw new Error(`waited ${timeoutMs} ms until ${what}${missed}`);
  }
}

/** Reads a body to its end, so that `howOver` knows when that has come. @param see is given each piece */
export function readThrough<T>(
  body: AsyncIterable<T>,
  see: (piece: T) => void = () => {},
): Begun & { pieces(): number } {
  let pieces = 0;
  let over: string | null = null;
  void (async () => {
    try {
      for await (const piece of body) {
        see(piece);
        pieces += 1;
      }
      over = 'succeeded';
    } catch (error) {
      over = String(error);
    }
  })();
  return { howOver: () => over, pieces: () => pieces };
}
