/** The id of a stream has 32 bits: the upper 8 are the number of its home, the lower 24 come from the fence token. */
const FENCES = 2 ** 24;

/** The home of streams whose relays are in the process of the queue, or on Cloudflare: the only one there is then. */
export const QUEUE_HOME = 0;

/**
 * Returns the number by which relay and worker know the answer of an attempt, unique among all that can be alive
 * together.
 * @param home the number of the process whose relay passes the answer on
 */
export function streamIdOf(fenceToken: number, home: number = QUEUE_HOME): number {
  return home * FENCES + (fenceToken % FENCES);
}

/** Returns the number of the process whose relay passes the stream on. */
export function homeOf(stream: number): number {
  return stream >>> 24;
}

/** Returns the id that the same attempt's stream has if this is its home. */
export function atHome(stream: number, home: number): number {
  return streamIdOf(stream, home);
}
