import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import * as z from 'zod';
import { JobError, type JobRef, JobResult, JobResultRef, parseJson } from '../../protocol/index.ts';
import type { Log } from '../ports.ts';
import type { Spool, SpooledSettlement } from './spool.ts';

const Spooled = z.object({
  settlement: z.discriminatedUnion('type', [JobResult, JobResultRef, JobError]),
  isExtended: z.boolean(),
  uploadUrl: z.string().optional(),
});

const ENDING = '.result';
const UNFINISHED = '.tmp';
const SET_ASIDE = '.unreadable';

/**
 * One file for each settlement, `<fence>-<digest of the job id>.result`: a checksum line, then JSON.
 * A file has its final name only when its content is on disk.
 *
 * The folder needs no lock. It belongs to one worker id, of which the queue keeps one process; should an older
 * process still be ending, both may send the same settlement, and the fence makes the second one a repeat.
 */
export class DiskSpool implements Spool {
  readonly #folder: string;
  readonly #limitBytes: number;
  readonly #log: Log;
  /** Size of each file that counts, by name. */
  readonly #sizes = new Map<string, number>();
  #bytes = 0;
  #hasFolder = false;
  /** What is under way for each name: a removal waits for the write before it. */
  readonly #work = new Map<string, Promise<void>>();
  /** Content that waits to be written, by name. What is removed before its turn never costs the disk anything. */
  readonly #unwritten = new Map<string, string>();
  #lastWrite: Promise<void> = Promise.resolve();
  #folderSync: Promise<void> | null = null;
  #folderChanged = false;

  constructor(folder: string, limitBytes: number, log: Log) {
    this.#folder = folder;
    this.#limitBytes = limitBytes;
    this.#log = log;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async put(spooled: SpooledSettlement): Promise<void> {
    const json = JSON.stringify(spooled);
    const content = `${checksum(json)}\n${json}`;
    const bytes = Buffer.byteLength(content);
    if (this.#bytes + bytes > this.#limitBytes) {
      throw new Error(
        `${this.#folder} would hold more than ${this.#limitBytes} bytes (WORKER_SPOOL_BYTES) of results ` +
          'that the queue has not acknowledged',
      );
    }
    const name = nameOf(spooled.settlement);
    this.#count(name, bytes);
    this.#unwritten.set(name, content);
    try {
      await this.#after(name, () => this.#writeInTurn(name));
    } catch (error) {
      this.#count(name, 0);
      throw explained(this.#folder, error);
    }
  }

  async remove(ref: JobRef): Promise<void> {
    const name = nameOf(ref);
    if (this.#unwritten.delete(name)) return this.#count(name, 0);
    try {
      await this.#after(name, () => removeFile(join(this.#folder, name)));
      this.#count(name, 0);
    } catch (error) {
      throw explained(this.#folder, error);
    }
  }

  async *load(): AsyncGenerator<SpooledSettlement> {
    try {
      await this.#makeFolder();
      const names = (await readdir(this.#folder)).sort((a, b) => fenceIn(a) - fenceIn(b));
      const unreadable: string[] = [];
      for (const name of names) {
        if (name.endsWith(SET_ASIDE)) continue;
        // Put by this process, while the disk was slow.
        if (this.#sizes.has(name.replace(UNFINISHED, ''))) continue;
        // Its process was killed while it wrote: the result was never promised to anybody.
        if (name.endsWith(UNFINISHED)) {
          await removeFile(join(this.#folder, name));
          continue;
        }
        const spooled = name.endsWith(ENDING) ? await this.#read(name).catch(() => null) : null;
        if (spooled) yield spooled;
        else unreadable.push(name);
      }
      await this.#setAside(unreadable);
    } catch (error) {
      throw explained(this.#folder, error);
    }
  }

  async #makeFolder(): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    this.#hasFolder = true;
  }

  /** One at a time: what the queue acknowledges meanwhile need not be written. */
  #writeInTurn(name: string): Promise<void> {
    const write = this.#lastWrite.then(() => {
      const content = this.#unwritten.get(name);
      this.#unwritten.delete(name);
      return content === undefined ? undefined : this.#write(name, content);
    });
    this.#lastWrite = write.catch(() => {});
    return write;
  }

  /** Resolves at the rename; the folder's own sync follows, one for all that were renamed meanwhile. */
  async #write(name: string, content: string): Promise<void> {
    const path = join(this.#folder, name);
    const unfinished = path + UNFINISHED;
    if (!this.#hasFolder) await this.#makeFolder();
    try {
      const file = await open(unfinished, 'w', 0o600);
      try {
        await file.writeFile(content);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(unfinished, path);
    } catch (error) {
      await removeFile(unfinished).catch(() => {});
      throw error;
    }
    this.#folderChanged = true;
    this.#folderSync ??= this.#syncFolder();
  }

  async #syncFolder(): Promise<void> {
    while (this.#folderChanged) {
      this.#folderChanged = false;
      try {
        const folder = await open(this.#folder);
        await folder.sync().finally(() => folder.close());
      } catch (error) {
        // The file itself is written; without this it may be missing after a power cut, no sooner.
        this.#log.debug({ problem: (error as Error).message }, 'the spool folder could not be synced');
      }
    }
    this.#folderSync = null;
  }

  async #read(name: string): Promise<SpooledSettlement | null> {
    const content = await readFile(join(this.#folder, name), 'utf8');
    const end = content.indexOf('\n');
    const json = content.slice(end + 1);
    const parsed = parseJson(Spooled, json);
    if (content.slice(0, end) !== checksum(json) || !parsed.ok) return null;
    this.#count(name, Buffer.byteLength(content));
    return parsed.value;
  }

  async #setAside(names: string[]): Promise<void> {
    if (names.length === 0) return;
    for (const name of names) {
      const path = join(this.#folder, name);
      await rename(path, path + SET_ASIDE).catch(() => {});
    }
    this.#log.warn(
      { folder: this.#folder, files: names.slice(0, 10), count: names.length },
      `results in the spool were cut short or damaged; set aside as *${SET_ASIDE}`,
    );
  }

  #count(name: string, bytes: number): void {
    this.#bytes += bytes - (this.#sizes.get(name) ?? 0);
    if (bytes > 0) this.#sizes.set(name, bytes);
    else this.#sizes.delete(name);
  }

  #after(name: string, run: () => Promise<void>): Promise<void> {
    const work = (this.#work.get(name) ?? Promise.resolve()).catch(() => {}).then(run);
    this.#work.set(name, work);
    const forget = () => {
      if (this.#work.get(name) === work) this.#work.delete(name);
    };
    work.then(forget, forget);
    return work;
  }
}

/** Also one that is not there. Unlike `rm` it asks nothing before, which node does on the thread of all jobs. */
async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}

/** Job ids are the caller's and may hold anything, so their digest stands in for them. */
function nameOf({ job_id, fence_token }: JobRef): string {
  return `${fence_token}-${createHash('sha256').update(job_id).digest('hex').slice(0, 32)}${ENDING}`;
}

function fenceIn(name: string): number {
  return Number.parseInt(name, 10) || 0;
}

function checksum(text: string): string {
  return crc32(text).toString(16);
}

function explained(folder: string, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') return new Error(`the disk of ${folder} is full`);
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    return new Error(`${folder} cannot be written (${code}): set WORKER_SPOOL_DIR to a folder that can`);
  }
  return new Error(`${folder}: ${message}`);
}
