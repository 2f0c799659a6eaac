import { withoutMark } from '../protocol/index.ts';

const LINE_FEED = 0x0a;

/** A line of a file, and where it stands, without its line end. */
export interface SplitLine {
  /** The line's number, from 1, counting blank lines too. */
  number: number;
  offset: number;
  length: number;
  /** The line as a view of the piece, without a byte order mark. */
  bytes: Uint8Array;
}

/**
 * Splits a piece of a file into its lines, leaving blank ones out. What follows the last line end belongs to the next
 * piece.
 * @param before the bytes and lines of the file that stand before the piece
 * @param isLast whether the piece ends with the file: then the remainder is a line too
 * @param most the most lines to return; splitting stops at one more
 * @returns `taken`: the bytes that were split; `passed`: the lines, including blank ones
 */
export function splitLines(
  piece: Uint8Array,
  before: { bytes: number; lines: number },
  isLast: boolean,
  most = Number.POSITIVE_INFINITY,
): { lines: SplitLine[]; taken: number; passed: number } {
  const lines: SplitLine[] = [];
  let at = 0;
  let passed = 0;
  while (at < piece.byteLength && lines.length <= most) {
    const found = piece.indexOf(LINE_FEED, at);
    if (found < 0 && !isLast) break;
    const end = found < 0 ? piece.byteLength : found;
    const bytes = withoutMark(piece.subarray(at, end));
    passed += 1;
    if (!bytes.every(isBlank)) {
      lines.push({ number: before.lines + passed, offset: before.bytes + at, length: end - at, bytes });
    }
    at = end + 1;
  }
  return { lines, taken: Math.min(at, piece.byteLength), passed };
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}
