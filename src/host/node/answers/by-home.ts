import { AnswerFormatError, homeOf, RECORD_TYPE, readHeaders } from '../../../protocol/index.ts';

/** The records of a message that belong to streams of one home. */
export interface Part {
  home: number;
  /** The places of the records in the message: where each run of them begins and where it ends, in turn. */
  runs: number[];
  bytes: number;
}

/** Returns the home of all records of a message; null: they have several, or the message has none or is cut short. */
export function onlyHomeOf(message: Uint8Array): number | null {
  let only: number | null = null;
  let isOne = true;
  const isWhole = readHeaders(message, (_type, stream) => {
    const home = homeOf(stream);
    only ??= home;
    if (home !== only) isOne = false;
  });
  return isWhole && isOne ? only : null;
}

/**
 * Sorts the records of a message by the homes of their streams. The order of each home's records stays.
 * @param see is called with each stream, and with whether the record is its last
 * @throws AnswerFormatError when the message is cut short
 */
export function partsOf(
  message: Uint8Array,
  see: (home: number, stream: number, isLast: boolean) => void,
): Part[] {
  const parts: Part[] = [];
  const isWhole = readHeaders(message, (type, stream, from, to) => {
    const home = homeOf(stream);
    see(home, stream, type === RECORD_TYPE.end || type === RECORD_TYPE.broken);
    // There are few homes, and neighbours mostly have the same.
    let part = parts.find((known) => known.home === home);
    if (part === undefined) {
      part = { home, runs: [], bytes: 0 };
      parts.push(part);
    }
    if (part.runs.at(-1) === from) part.runs[part.runs.length - 1] = to;
    else part.runs.push(from, to);
    part.bytes += to - from;
  });
  if (!isWhole) throw new AnswerFormatError('record cut short');
  return parts;
}

/** Copies the records of a part into memory of their own. @param before the room to leave before them, bytes */
export function copyOf(message: Uint8Array, { runs, bytes }: Part, before = 0): Uint8Array<ArrayBuffer> {
  const copy = Buffer.allocUnsafe(before + bytes);
  let at = before;
  for (let index = 0; index < runs.length; index += 2) {
    const run = message.subarray(runs[index]!, runs[index + 1]!);
    copy.set(run, at);
    at += run.byteLength;
  }
  return copy;
}
