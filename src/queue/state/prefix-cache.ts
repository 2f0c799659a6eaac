import type { Prefix } from '../rpc.ts';

/**
 * The most hashes remembered of one worker: about as much text as fits into the cache of an engine, 2 MiB in prompts of
 * a few kilobytes. They take 200 kB of memory.
 */
const MOST_HASHES = 4096;

/**
 * The newest prompts and conversations that the queue gave to a worker and that its engine's cache supposedly still
 * holds. They are forgotten with the worker's process, since the engine's cache is gone then too.
 */
export class PrefixCache {
  /**
   * Hashes in the order of use. A block is never older than those after it in a prompt, so what is left is a beginning.
   */
  readonly #hashes = new Set<number>();

  /** Notes that the worker computes this prompt now. */
  add({ session, hashes }: Prefix): void {
    for (let at = hashes.length - 1; at >= 0; at--) this.#touch(hashes[at]!);
    if (session !== 0) this.#touch(session);
    for (const oldest of this.#hashes) {
      if (this.#hashes.size <= MOST_HASHES) return;
      this.#hashes.delete(oldest);
    }
  }

  /** Forgets all hashes, since the engine's cache is empty. */
  clear(): void {
    this.#hashes.clear();
  }

  hasSession({ session }: Prefix): boolean {
    return session !== 0 && this.#hashes.has(session);
  }

  /** Returns how many blocks of the prompt, from the first, the cache has. */
  blocksOf({ hashes }: Prefix): number {
    let [known, unknown] = [0, hashes.length];
    while (known < unknown) {
      const middle = (known + unknown) >> 1;
      if (this.#hashes.has(hashes[middle]!)) known = middle + 1;
      else unknown = middle;
    }
    return known;
  }

  #touch(hash: number): void {
    this.#hashes.delete(hash);
    this.#hashes.add(hash);
  }
}
