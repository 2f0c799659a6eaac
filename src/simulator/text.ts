/**
 * The simulated language: made-up answers that are the same for the same request, and a tokenizer
 * that only counts.
 */

// One entry is one token. A few letters outside ASCII, so that a road that cuts UTF-8 in two is found out.
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

/** Natural answers are this long, in tokens. */
const SHORTEST = 16;
const LONGEST = 160;

/** A stream of tokens that ends by itself after `naturalLength` of them. */
export interface TokenSource {
  naturalLength: number;
  next(): string;
}

/** Tokens that depend on nothing but the seed. */
export function tokenSource(seed: number): TokenSource {
  let state = seed >>> 0;
  const random = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    naturalLength: SHORTEST + Math.floor(random() * (LONGEST - SHORTEST)),
    next: () => VOCABULARY[Math.floor(random() * VOCABULARY.length)]!,
  };
}

/** A 32-bit seed from text (FNV-1a). */
export function seedFrom(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}

/** Tokens of a text: one for every four bytes begun. */
export function countTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 4);
}
