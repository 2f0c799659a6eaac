const LINE_FEED = 0x0a;

/** A line of a file: where it stands, without its line end. */
export interface SplitLine {
  /** From 1, blank lines counted too. */
  number: number;
  offset: number;
  length: number;
  text: string;
}

/**
 * The lines of a piece of a file, blank ones left out. What follows the last line end belongs to the next piece.
 * @param before bytes and lines of the file that stand before the piece
 * @param isLast it ends with the file: what is left is a line too
 * @returns `taken`: bytes that are dealt with; `passed`: lines, also blank ones
 */
export function splitLines(
  piece: Uint8Array,
  before: { bytes: number; lines: number },
  isLast: boolean,
): { lines: SplitLine[]; taken: number; passed: number } {
  const decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true });
  const lines: SplitLine[] = [];
  let at = 0;
  let passed = 0;
  while (at < piece.byteLength) {
    const found = piece.indexOf(LINE_FEED, at);
    if (found < 0 && !isLast) break;
    const end = found < 0 ? piece.byteLength : found;
    // A file may begin with a byte order mark.
    const text = decoder
      .decode(piece.subarray(at, end))
      .replace(/^\ufeff/, '')
      .trim();
    passed += 1;
    if (text !== '') {
      lines.push({ number: before.lines + passed, offset: before.bytes + at, length: end - at, text });
    }
    at = end + 1;
  }
  return { lines, taken: Math.min(at, piece.byteLength), passed };
}
