/** What the gateway tells the queue of the beginning of a prompt, and of the conversation that it belongs to. */

/** A block of 512 bytes is 128 tokens or so: fewer take an engine less time than anything done about them. */
const FIRST_BLOCK_BYTES = 512;

/** 44 of them end at 300 kB, 75,000 tokens or so. What agrees until there is warm enough, whatever comes then. */
const MOST_BLOCKS = 44;

/** Where blocks of a prompt end, bytes. The first are short, later ones an eighth of what is before them. */
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
  /** Of the conversation, where the caller names it; 0: it does not. */
  session: number;
  /** Of the whole prompt as far as blocks go. */
  bytes: number;
  /** 30 bits each, which engines of JavaScript keep as they are; none for a prompt shorter than the first block. */
  hashes: readonly number[];
}
