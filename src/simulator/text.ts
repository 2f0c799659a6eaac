/**
 * The simulated language: made-up answers that are the same for the same request, and a tokenizer
 * whose ids say nothing but which prompt they are of, and which others begin alike.
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

/** What one step of generation makes. */
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
/** Ids with the same word are so far apart; there are fewer words. */
const WORDS = 128;

/** Ids of a prompt of so many tokens: each follows from the text until its place, the last one from all of it. */
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
 * The next token follows from all ids before it: an answer that is cut, and continued elsewhere from its ids, reads as
 * if it had never been cut. A generated id also says how many tokens come after it by nature.
 * @param salt of what depends on where this generation began (a seed, a penalty); null: nothing does
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

/** Spreads what differs in a few bits over all of them (mulberry32). */
function mix(state: number): number {
  const start = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(start ^ (start >>> 15), start | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return (mixed ^ (mixed >>> 14)) >>> 0;
}

/** A 32-bit seed from text (FNV-1a). */
export function seedFrom(text: string): number {
  let hash = FNV_START;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}

/** Bytes. */
const TOKEN_LENGTH = 4;

/** Tokens of a text: one for every four bytes begun. */
export function countTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / TOKEN_LENGTH);
}
