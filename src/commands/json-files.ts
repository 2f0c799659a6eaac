import { createReadStream } from 'node:fs';
import { UserError } from '../process/index.ts';
import { JsonFault, outsideStrings, utf8Text } from '../protocol/index.ts';

/**
 * JSON in files that users give to commands must be valid UTF-8: a job with other characters than theirs would still
 * succeed.
 */

const LINE_FEED = 0x0a;

/**
 * Returns the text of JSON that a user gave, without a byte order mark.
 * @param source the name of the JSON in messages
 * @throws UserError that names the encoding, or the first byte that is not UTF-8
 */
export function textOfJson(bytes: Uint8Array, source: string): string {
  try {
    return utf8Text(bytes);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    throw new UserError(`${source}: ${error.message.replace('The body', 'this')}`);
  }
}

/**
 * Yields the lines of a file with their numbers, from 1; empty lines are left out.
 * @param seen called with every piece of the file
 * @throws UserError as `textOfJson`
 */
export async function* jsonLines(
  file: string,
  seen?: (piece: Uint8Array) => unknown,
): AsyncGenerator<{ line: number; text: string }> {
  let line = 0;
  let begun: Uint8Array[] = [];
  const next = (end: Uint8Array) => {
    line += 1;
    const text = textOfJson(Buffer.concat([...begun, end]), `${file}, line ${line}`);
    begun = [];
    return { line, text: text.replace(/\r$/, '') };
  };
  for await (const piece of createReadStream(file) as AsyncIterable<Buffer>) {
    seen?.(piece);
    let at = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, at)) {
      const read = next(piece.subarray(at, end));
      if (read.text.trim() !== '') yield read;
      at = end + 1;
    }
    begun.push(piece.subarray(at));
  }
  const read = next(new Uint8Array());
  if (read.text.trim() !== '') yield read;
}

/** Returns JSON for people, indented as by `JSON.stringify`; its numbers and texts stay as they are written. */
export function indentedJson(json: string): string {
  const compact = outsideStrings(json, (part) => part.replaceAll(/\s+/g, ''));
  let depth = 0;
  return outsideStrings(compact, (part) =>
    part.replaceAll(/\{\}|\[\]|[{[\]},:]/g, (mark) => {
      if (mark === ':') return ': ';
      if (mark.length === 2) return mark;
      if (mark === ',') return `,\n${'  '.repeat(depth)}`;
      depth += mark === '{' || mark === '[' ? 1 : -1;
      const line = `\n${'  '.repeat(depth)}`;
      return mark === '{' || mark === '[' ? mark + line : line + mark;
    }),
  );
}
