/**
 * This file makes the simulated language: made-up answers that are the same for the same request, and a tokenizer
 * whose ids only show which prompt they belong to, and which prompts begin alike.
 */

// One entry is one token. Some have letters outside ASCII, so that a test notices code that cuts UTF-8 in two.
const VOCABULARY = (
  'the a to of and in on for with by from at is was are be has had it they we you this that one two three ' +
  'morning evening river harbour garden window letter answer question machine engine queue worker story ' +
  'small quiet bright early late slow quick green blue old new long short warm clear open ' +
  'opens closes walks finds keeps sends brings waits turns reads writes asks tells knows sees takes gives ' +
  'again always never often here there then now soon still almost together away home ' +
  'café naïve señor Zürich 東京 привет ☀ 🙂'
)
  .split(' ')
  .map((word) => ` ${word}`);

/** The bounds of a natural answer's length, tokens. */
const SHORTEST = 16;
const LONGEST = 160;

/** The token that one step of generation makes. */
interface Token {
  id: number;
  text: string;
}

/** A stream of tokens that ends by itself after `naturalLength` of them. */
export interface TokenSource {
  naturalLength: number;
  next(): Token;
}

/** Ids of prompts are below this. */
const GENERATED_FROM = 200_000;
/** The distance between ids with the same word; there are fewer words. */
const WORDS = 128;

/** Returns the ids of a prompt. Each follows from the text up to its place, and the last one from the whole text. */
export function promptIds(text: string, count: number): number[] {
  let hash = FNV_START;
  let at = 0;
  return Array.from({ length: count }, (_, index) => {
    const end = index === count - 1 ? text.length : Math.min(text.length, (index + 1) * TOKEN_LENGTH);
    for (; at < end; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
    return mix(hash + Math.imul(index, 0x9e3779b1)) % GENERATED_FROM;
  });
}

/**
 * Makes tokens, each of which follows from all ids before it: an answer that is cut, and continued elsewhere from its
 * ids, reads as if it had never been cut. A generated id also says how many tokens are still to come.
 * @param salt stands for a seed or a penalty, whose effect depends on where the generation began; null: there is none
 */
export function tokenSource(ids: readonly number[], salt: number | null = null): TokenSource {
  let state = salt === null ? FNV_START : fold(FNV_START, salt);
  for (const id of ids) state = fold(state, id);
  const last = ids.at(-1) ?? 0;
  const naturalLength =
    last >= GENERATED_FROM
      ? Math.floor((last - GENERATED_FROM) / WORDS)
      : SHORTEST + (mix(state) % (LONGEST - SHORTEST));
  let made = 0;
  return {
    naturalLength,
    next: () => {
      made++;
      const word = mix(salt === null ? state : fold(state, made)) % VOCABULARY.length;
      const id = GENERATED_FROM + WORDS * Math.max(0, naturalLength - made) + word;
      state = fold(state, id);
      return { id, text: VOCABULARY[word]! };
    },
  };
}

const FNV_START = 0x811c9dc5;

function fold(state: number, id: number): number {
  return Math.imul(state ^ id, 0x01000193) >>> 0;
}

/** Spreads a difference in a few bits over all bits (mulberry32). */
function mix(state: number): number {
  const start = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(start ^ (start >>> 15), start | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return (mixed ^ (mixed >>> 14)) >>> 0;
}

/** Makes a 32-bit seed from text (FNV-1a). */
export function seedFrom(text: string): number {
  let hash = FNV_START;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}

/** The length of a token, bytes. */
const TOKEN_LENGTH = 4;

/** Counts the tokens of a text: one for every four bytes begun. */
export function countTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / TOKEN_LENGTH);
}
