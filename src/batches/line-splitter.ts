const LINE_FEED = 0x0a;

/** A line of a file: where it stands, without its line end. */
export interface SplitLine {
  offset: number;
  length: number;
  text: string;
}

/**
 * The lines of a piece of a file, blank ones left out. What follows the last line end belongs to the next piece.
 * @param offset where the piece begins in the file
 * @param isLast it ends with the file: what is left is a line too
 * @returns `taken`: bytes that are dealt with
 */
export function splitLines(
  piece: Uint8Array,
  offset: number,
  isLast: boolean,
): { lines: SplitLine[]; taken: number } {
  const decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true });
  const lines: SplitLine[] = [];
  let at = 0;
  while (at < piece.byteLength) {
    const found = piece.indexOf(LINE_FEED, at);
    if (found < 0 && !isLast) break;
    const end = found < 0 ? piece.byteLength : found;
    // A file may begin with a byte order mark.
    const text = decoder
      .decode(piece.subarray(at, end))
      .replace(/^\ufeff/, '')
      .trim();
    if (text !== '') lines.push({ offset: offset + at, length: end - at, text });
    at = end + 1;
  }
  return { lines, taken: Math.min(at, piece.byteLength) };
}
