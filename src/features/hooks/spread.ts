/**
 * Spreads a text over the places of the pieces of another one. What both have in common at their beginning and at their
 * end stays in its place; what is new goes to where the difference begins.
 * @returns as many texts as there are pieces, which make up `text`
 */
export function spread(pieces: readonly string[], text: string): string[] {
  const before = pieces.join('');
  const head = commonHead(before, text);
  const tail = commonTail(before, text, Math.min(before.length, text.length) - head);
  const middle = text.slice(head, text.length - tail);
  const tailFrom = before.length - tail;
  let at = 0;
  let isPlaced = false;
  return pieces.map((piece, index) => {
    const [from, to] = [at, at + piece.length];
    at = to;
    const kept = before.slice(from, Math.min(to, head));
    const rest = before.slice(Math.max(from, tailFrom), Math.max(to, tailFrom));
    const isHere = !isPlaced && (to > head || index === pieces.length - 1);
    isPlaced ||= isHere;
    return kept + (isHere ? middle : '') + rest;
  });
}

/** Returns how many characters both begin with. A pair of surrogates is not cut. */
function commonHead(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) length += 1;
  return length > 0 && isHigh(one.charCodeAt(length - 1)) ? length - 1 : length;
}

/** Returns how many characters both end with, `most` at most. */
function commonTail(one: string, other: string, most: number): number {
  let length = 0;
  while (length < most && one[one.length - 1 - length] === other[other.length - 1 - length]) length += 1;
  return length > 0 && isLow(one.charCodeAt(one.length - length)) ? length - 1 : length;
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isLow(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}
