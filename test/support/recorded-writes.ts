import { dirname } from 'node:path';

/** The kinds of records, as in power-loss-shim.c. */
export const RECORD = { write: 1, truncate: 2, create: 3, sync: 4, unlink: 5, say: 6, rename: 7 };
const HEAD_BYTES = 32;

/** An operation of a process on its files. */
export interface Recorded {
  /** The operation's place among the records. */
  at: number;
  kind: number;
  path: string;
  /** What was written or said, or the path that a renamed file or folder has now. */
  bytes: Buffer;
  /** The offset of a write, the new size of a truncation, or the end up to which a sync has synced. */
  offset: number;
}

/** Files by path. */
export type Disk = Map<string, Buffer>;

export function readRecords(bytes: Buffer): Recorded[] {
  const records: Recorded[] = [];
  for (let at = 0; at + HEAD_BYTES <= bytes.length; ) {
    const number = (n: number) => Number(bytes.readBigInt64LE(at + n * 8));
    const pathEnd = at + HEAD_BYTES + number(1);
    const end = pathEnd + number(3);
    // The process was killed before it had recorded all of it, and so before it did it.
    if (end > bytes.length) break;
    const path = bytes.toString('utf8', at + HEAD_BYTES, pathEnd);
    records.push({ at, kind: number(0), path, offset: number(2), bytes: bytes.subarray(pathEnd, end) });
    at = end;
  }
  return records;
}

/**
 * What a disk has after a power loss.
 * @param before what it had when the records begin @param keeps whether a write is there that was not synced
 * @returns also what the process had said
 */
export function replay(
  before: Disk,
  records: readonly Recorded[],
  keeps: (write: Recorded) => boolean,
): { disk: Disk; said: string } {
  const files = new Map(Array.from(before, ([path, bytes]) => [path, new Content(bytes)]));
  /** Writes that are not synced, by file. */
  const unsynced = new Map<string, Recorded[]>();
  /** Files and folders whose entries are not synced, and when they were made. */
  const entries = new Map<string, number>();
  /** Renames whose folder is not synced. */
  let renames: { at: number; to: string; undo(): void }[] = [];
  const said: string[] = [];
  const write = (path: string, record: Recorded) => {
    const content = files.get(path) ?? new Content(Buffer.alloc(0));
    files.set(path, content);
    content.change(record);
  };
  const rename = (from: string, to: string) => {
    const made = entries.get(from);
    const undone = [moved(files, from, to), moved(unsynced, from, to), moved(entries, from, to)];
    // What stores the new name also stores that the file is there.
    entries.delete(to);
    return () => {
      for (const undo of undone) undo();
      if (made !== undefined) entries.set(from, made);
    };
  };
  for (const record of records) {
    const { at, kind, path, offset, bytes } = record;
    const waiting = unsynced.get(path) ?? [];
    if (kind === RECORD.say) said.push(bytes.toString());
    if (kind === RECORD.create) entries.set(path, at);
    if (kind === RECORD.write || kind === RECORD.truncate) {
      waiting.push(record);
      unsynced.set(path, waiting);
    }
    if (kind === RECORD.rename)
      renames.push({ at, to: bytes.toString(), undo: rename(path, bytes.toString()) });
    if (kind === RECORD.sync) {
      renames = renames.filter((one) => dirname(one.to) !== path || one.at >= offset);
      for (const one of waiting) if (one.at < offset) write(path, one);
      const rest = waiting.filter((one) => one.at >= offset);
      unsynced.set(path, rest);
      for (const [entry, made] of entries) {
        if (dirname(entry) === path && made < offset) entries.delete(entry);
      }
    }
    if (kind === RECORD.unlink) for (const map of [files, unsynced, entries]) map.delete(path);
  }
  for (const { undo } of renames.reverse()) undo();
  for (const [path, waiting] of unsynced) for (const one of waiting) if (keeps(one)) write(path, one);
  for (const entry of entries.keys()) {
    for (const path of files.keys()) if (path === entry || path.startsWith(`${entry}/`)) files.delete(path);
  }
  return { disk: new Map(Array.from(files, ([path, { bytes }]) => [path, bytes])), said: said.join('') };
}

/** Moves what has a path, or one below it, and drops what was there. @returns a function that moves it back */
function moved<Value>(map: Map<string, Value>, from: string, to: string): () => void {
  const take = (folder: string) => {
    const found = [...map].filter(([path]) => path === folder || path.startsWith(`${folder}/`));
    for (const [path] of found) map.delete(path);
    return found;
  };
  const put = (found: [string, Value][], before: string, after: string) => {
    for (const [path, value] of found) map.set(after + path.slice(before.length), value);
  };
  const dropped = take(to);
  put(take(from), from, to);
  return () => {
    put(take(to), to, from);
    put(dropped, to, to);
  };
}

/** A file, with room for more. */
class Content {
  #room: Buffer;
  #size: number;

  constructor(bytes: Buffer) {
    this.#room = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  get bytes(): Buffer {
    return this.#room.subarray(0, this.#size);
  }

  change({ kind, offset, bytes }: Recorded): void {
    const end = offset + bytes.length;
    if (end > this.#room.length) this.#room = Buffer.concat([this.bytes], end * 2);
    if (kind === RECORD.truncate) this.#room.fill(0, offset);
    else bytes.copy(this.#room, offset);
    this.#size = kind === RECORD.truncate ? offset : Math.max(this.#size, end);
  }
}
