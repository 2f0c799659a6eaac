import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, link, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { UserError } from '../../../process/index.ts';
import { syncFolder } from '../storage/files.ts';
import {
  CHUNK_BYTES,
  type Entry,
  type Journal,
  type Lease,
  type Place,
  READ_BYTES,
  type Snapshot,
  type SnapshotChunk,
  sortedName,
  Taken,
} from './journal.ts';

/** A file that is not finished after this many ms was left by a process that ended. */
const LEFT_AFTER_MS = 3_600_000;

interface StoredLease extends Lease {
  /** The end of the lease by the clock of the machine, epoch ms. */
  until: number;
  ttlMs: number;
}

/**
 * A journal in a folder, for processes of one machine or for a file system that they share. An entry is written beside
 * its place and then linked there, which fails if the place is taken.
 */
export class FileJournal implements Journal {
  readonly #folder: string;
  /** A number up to which the last entry was seen. */
  #seen = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async open(): Promise<void> {
    try {
      for (const name of ['entries', 'snapshots', 'unfinished'])
        await mkdir(join(this.#folder, name), { recursive: true, mode: 0o700 });
      await syncFolder(this.#folder);
    } catch (error) {
      throw new UserError(
        `Cannot use the folder of the journal, ${this.#folder}: ${(error as Error).message}. ` +
          'Name a folder that this process can write to (QUEUE_JOURNAL or --journal file:PATH).',
      );
    }
  }

  async last(): Promise<Place> {
    if (!(await this.#has(this.#seen))) this.#seen = (await this.#numbers('entries')).at(-1) ?? 0;
    while (await this.#has(this.#seen + 1)) this.#seen += 1;
    if (this.#seen === 0) return { seq: 0, epoch: 0 };
    const { seq, epoch } = (await this.#entry(this.#seen)) ?? (await this.last());
    return { seq, epoch };
  }

  async append({ seq, epoch, body }: Entry): Promise<void> {
    if (!(await this.#follows(seq))) throw new Taken(seq);
    const head = Buffer.alloc(8);
    head.writeBigUInt64BE(BigInt(epoch));
    const written = await this.#write(async (file) => {
      await file.writev([head, body]);
    });
    if (!(await this.#place(written, 'entries', seq))) throw new Taken(seq);
    // Entries are trimmed in order: if the one before is gone, this number may have been there and be trimmed.
    if (!(await this.#follows(seq, true))) {
      await rm(this.#at('entries', seq));
      throw new Taken(seq);
    }
    await syncFolder(join(this.#folder, 'entries'));
  }

  async read(afterSeq: number, most: number): Promise<Entry[]> {
    const entries: Entry[] = [];
    let bytes = 0;
    for (let seq = afterSeq + 1; entries.length < most && bytes < READ_BYTES; seq += 1) {
      const entry = await this.#entry(seq);
      if (!entry) break;
      entries.push(entry);
      bytes += entry.body.length;
    }
    if (entries.length > 0 || (await this.#has(afterSeq))) return entries;
    const next = (await this.#numbers('entries')).find((seq) => seq > afterSeq);
    return next === undefined ? [] : this.read(next - 1, most);
  }

  async renewLease(lease: Lease, ttlMs: number): Promise<boolean> {
    const stored = await this.#storedLease();
    if (stored && stored.epoch > lease.epoch) return false;
    const written = await this.#write(async (file) => {
      await file.writeFile(
        JSON.stringify({ ...lease, until: Date.now() + ttlMs, ttlMs } satisfies StoredLease),
      );
    });
    await rename(written, join(this.#folder, 'lease.json'));
    return true;
  }

  async lease(): Promise<(Lease & { isAlive: boolean }) | null> {
    const stored = await this.#storedLease();
    if (!stored) return null;
    const { epoch, address, until, ttlMs } = stored;
    const leftMs = until - Date.now();
    // More than it had at first is left where the clock was set back.
    return { epoch, address, isAlive: leftMs > 0 && leftMs <= ttlMs };
  }

  async saveSnapshot({ seq, chunks }: Snapshot): Promise<void> {
    const written = await this.#write(async (file) => {
      for await (const { name, bytes } of chunks) {
        const head = Buffer.alloc(8);
        head.writeUInt32BE(Buffer.byteLength(name), 0);
        head.writeUInt32BE(bytes.length, 4);
        await file.writev([head, Buffer.from(name), bytes]);
      }
    });
    await this.#place(written, 'snapshots', seq);
    await syncFolder(join(this.#folder, 'snapshots'));
  }

  async newestSnapshot(): Promise<Snapshot | null> {
    const seq = (await this.#numbers('snapshots')).at(-1);
    return seq === undefined ? null : { seq, chunks: chunksOf(this.#at('snapshots', seq)) };
  }

  async trim(beforeSeq: number): Promise<void> {
    for (const kind of ['entries', 'snapshots'] as const)
      for (const seq of await this.#numbers(kind)) if (seq < beforeSeq) await rm(this.#at(kind, seq));
    const folder = join(this.#folder, 'unfinished');
    for (const name of await readdir(folder)) {
      const { mtimeMs = Date.now() } = (await stat(join(folder, name)).catch(() => null)) ?? {};
      if (Date.now() - mtimeMs > LEFT_AFTER_MS) await rm(join(folder, name), { force: true });
    }
  }

  async close(): Promise<void> {}

  /** Returns whether an entry with this number would follow the last one, or follows the one before it. */
  async #follows(seq: number, isThere = false): Promise<boolean> {
    if (seq > 1) return await this.#has(seq - 1);
    return (await this.#numbers('entries'))[0] === (isThere ? 1 : undefined);
  }

  async #has(seq: number): Promise<boolean> {
    return (await stat(this.#at('entries', seq)).catch(absent)) !== null;
  }

  async #entry(seq: number): Promise<Entry | null> {
    const bytes = await readFile(this.#at('entries', seq)).catch(absent);
    return bytes && { seq, epoch: Number(bytes.readBigUInt64BE()), body: bytes.subarray(8) };
  }

  async #storedLease(): Promise<StoredLease | null> {
    const text = await readFile(join(this.#folder, 'lease.json'), 'utf8').catch(absent);
    return text === null ? null : (JSON.parse(text) as StoredLease);
  }

  /** Returns the numbers of the files of one kind, ascending. */
  async #numbers(kind: 'entries' | 'snapshots'): Promise<number[]> {
    const names = await readdir(join(this.#folder, kind));
    return names.map(Number).sort((one, other) => one - other);
  }

  #at(kind: 'entries' | 'snapshots', seq: number): string {
    return join(this.#folder, kind, sortedName(seq));
  }

  /** Gives a written file the place of a number. @returns false if the place is taken, and then removes the file */
  async #place(written: string, kind: 'entries' | 'snapshots', seq: number): Promise<boolean> {
    try {
      await link(written, this.#at(kind, seq));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    } finally {
      await rm(written);
    }
  }

  /** Writes and syncs a file that has no place yet. @returns its path */
  async #write(fill: (file: FileHandle) => Promise<void>): Promise<string> {
    const path = join(this.#folder, 'unfinished', randomUUID());
    const file = await open(path, 'wx', 0o600);
    try {
      await fill(file);
      await file.datasync();
    } catch (error) {
      await rm(path);
      throw error;
    } finally {
      await file.close();
    }
    return path;
  }
}

async function* chunksOf(path: string): AsyncGenerator<SnapshotChunk> {
  let bytes: Buffer = Buffer.alloc(0);
  for await (const more of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    bytes = Buffer.concat([bytes, more as Buffer]);
    for (;;) {
      if (bytes.length < 8) break;
      const named = 8 + bytes.readUInt32BE(0);
      const end = named + bytes.readUInt32BE(4);
      if (bytes.length < end) break;
      yield { name: bytes.toString('utf8', 8, named), bytes: bytes.subarray(named, end) };
      bytes = bytes.subarray(end);
    }
  }
  if (bytes.length > 0) throw new Error(`the snapshot ${path} is cut short`);
}

function absent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}
