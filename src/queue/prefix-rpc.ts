/**
 * Describes the beginning of a prompt, and the conversation that the prompt belongs to, as the gateway reports them.
 */

/**
 * The bytes of the first block, 128 tokens or so: an engine computes fewer tokens in less time than matching them
 * takes.
 */
const FIRST_BLOCK_BYTES = 512;

/**
 * The number of blocks: 44 end at 300 kB, 75,000 tokens or so. Prompts that agree up to there count as equally warm.
 */
const MOST_BLOCKS = 44;

/**
 * The ends of a prompt's blocks, bytes. The first blocks are short; each later one is an eighth of the bytes before it.
 */
export const BLOCK_ENDS: readonly number[] = blockEnds();

function blockEnds(): number[] {
  const ends: number[] = [];
  let end = 0;
  while (ends.length < MOST_BLOCKS) {
    end += Math.max(FIRST_BLOCK_BYTES, end >> 3);
    ends.push(end);
  }
  return ends;
}

/**
 * The beginning of a prompt, as hashes: each stands for all of the prompt until the end of its block, its model and its
 * tenant, so two prompts agree as far as their hashes do.
 */
export interface Prefix {
  /** The hash of the conversation, if the caller names one; otherwise 0. */
  session: number;
  /** The length of the prompt, as far as blocks reach. */
  bytes: number;
  /**
   * The hashes, 30 bits each, which JavaScript engines store unboxed; none for a prompt shorter than the first block.
   */
  hashes: readonly number[];
}
