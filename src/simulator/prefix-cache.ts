/** vLLM's prefix cache: the blocks of prompts that the engine has computed, each with all blocks before it. */
export class PrefixCache {
  readonly #blockTokens: number;
  readonly #most: number;
  /** The computed prefixes, each a prompt up to the end of a block. The one used last comes last. */
  readonly #computed = new Set<string>();

  /** @param most the most blocks that are kept */
  constructor(blockTokens: number, most: number) {
    this.#blockTokens = blockTokens;
    this.#most = most;
  }

  /**
   * Computes a prompt.
   * @param root an adapter or a salt: prompts with different roots share nothing
   * @returns how many tokens had been computed before; never the last one, from which the answer is made
   */
  compute(ids: readonly number[], root: string): number {
    let cached = 0;
    let isKnown = true;
    let [one, other] = [0x811c9dc5, 0x9747b28c];
    for (const [at, id] of ids.entries()) {
      one = Math.imul(one ^ id, 0x01000193);
      other = Math.imul(other + id, 0x85ebca6b) ^ (other >>> 13);
      if ((at + 1) % this.#blockTokens > 0) continue;
      const block = `${root} ${one} ${other}`;
      isKnown &&= this.#computed.delete(block);
      if (isKnown && at + 1 < ids.length) cached = at + 1;
      this.#computed.delete(block);
      this.#computed.add(block);
    }
    for (const oldest of this.#computed) {
      if (this.#computed.size <= this.#most) break;
      this.#computed.delete(oldest);
    }
    return cached;
  }

  clear(): void {
    this.#computed.clear();
  }
}
