import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import * as z from 'zod';
import type { Log } from '../../process/log.ts';
import {
  JobError,
  type JobRef,
  JobResult,
  JobResultRef,
  parseFrames,
  writeJson,
} from '../../protocol/index.ts';
import type { Spool, SpooledSettlement } from './settlement.ts';

const Spooled = z.object({
  settlement: z.discriminatedUnion('type', [JobResult, JobResultRef, JobError]),
  isExtended: z.boolean(),
  uploadUrl: z.string().optional(),
});

interface Unwritten {
  spooled: SpooledSettlement;
  /** Ends the wait for the acknowledgement. */
  removed(): void;
}

const ENDING = '.result';
const UNFINISHED = '.tmp';
const SET_ASIDE = '.unreadable';
/**
 * A settlement that was sent waits this long for its acknowledgement before it is written, ms: most are never written.
 * It is lost only if within that time this process is killed and its connection breaks.
 */
const ACK_WAIT_MS = 20;
/**
 * The spool stores up to this many bytes of results, enough for a queue that is away for long; further results stay in
 * memory, as with a full disk.
 */
const MOST_BYTES = 1024 ** 3;

/**
 * Stores each settlement in a file, `<fence>-<digest of the job id>.result`: a checksum line, then JSON. A file has its
 * final name only when its content is on disk.
 *
 * The folder needs no lock. It belongs to one worker id, of which the queue keeps one process. If an older process is
 * still ending, both may send the same settlement, and the fence makes the second one a repeat.
 */
export class DiskSpool implements Spool {
  readonly #folder: string;
  readonly #limitBytes: number;
  readonly #log: Log;
  readonly #ackWaitMs: number;
  /** The size of each file that counts towards the limit, by name. */
  readonly #sizes = new Map<string, number>();
  #bytes = 0;
  #hasFolder = false;
  /** The work in progress for each attempt: a removal waits for the write before it. */
  readonly #work = new Map<string, Promise<void>>();
  /** Settlements that wait to be written, by attempt. A settlement that is removed before its turn is never written. */
  readonly #unwritten = new Map<string, Unwritten>();
  #lastWrite: Promise<void> = Promise.resolve();
  #folderSync: Promise<void> | null = null;
  #folderChanged = false;

  constructor(folder: string, log: Log, ackWaitMs = ACK_WAIT_MS, limitBytes = MOST_BYTES) {
    this.#folder = folder;
    this.#limitBytes = limitBytes;
    this.#log = log;
    this.#ackWaitMs = ackWaitMs;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async put(spooled: SpooledSettlement, isSent = false): Promise<void> {
    const attempt = attemptOf(spooled.settlement);
    const unwritten = { spooled, removed: () => {} };
    this.#unwritten.set(attempt, unwritten);
    if (isSent) await this.#waitFor(unwritten);
    if (this.#unwritten.get(attempt) !== unwritten) return;
    try {
      await this.#after(attempt, () => this.#writeInTurn(attempt));
    } catch (error) {
      throw explained(this.#folder, error);
    }
  }

  async remove(ref: JobRef): Promise<void> {
    const attempt = attemptOf(ref);
    const unwritten = this.#unwritten.get(attempt);
    if (unwritten) {
      this.#unwritten.delete(attempt);
      return unwritten.removed();
    }
    const name = nameOf(ref);
    try {
      await this.#after(attempt, () => removeFile(join(this.#folder, name)));
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
        // This process has written the file while the disk was slow.
        if (this.#sizes.has(name.replace(UNFINISHED, ''))) continue;
        // A process was killed while it wrote this file: the result was never promised to the queue.
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

  /** Waits until the settlement is removed, or the time for its acknowledgement is over. */
  #waitFor(unwritten: Unwritten): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#ackWaitMs);
      unwritten.removed = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Writes one settlement at a time: those acknowledged while they wait need not be written. */
  #writeInTurn(attempt: string): Promise<void> {
    const write = this.#lastWrite.then(() => {
      const unwritten = this.#unwritten.get(attempt);
      this.#unwritten.delete(attempt);
      return unwritten && this.#write(unwritten.spooled);
    });
    this.#lastWrite = write.catch(() => {});
    return write;
  }

  /**
   * Writes a settlement. Resolves at the rename; the folder's own sync follows, one for all files renamed until then.
   */
  async #write(spooled: SpooledSettlement): Promise<void> {
    const json = writeJson(spooled);
    const content = Buffer.from(`${checksum(json)}\n${json}`);
    const name = nameOf(spooled.settlement);
    this.#take(name, content.byteLength);
    const path = join(this.#folder, name);
    const unfinished = path + UNFINISHED;
    try {
      if (!this.#hasFolder) await this.#makeFolder();
      const file = await open(unfinished, 'w', 0o600);
      try {
        await file.writeFile(content);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(unfinished, path);
    } catch (error) {
      this.#count(name, 0);
      await removeFile(unfinished).catch(() => {});
      throw error;
    }
    this.#folderChanged = true;
    this.#folderSync ??= this.#syncFolder();
  }

  /** Counts the bytes of a file. @throws Error for people when the folder would be over its limit */
  #take(name: string, bytes: number): void {
    if (this.#bytes + bytes > this.#limitBytes) {
      throw new Error(
        `${this.#folder} would hold more than ${this.#limitBytes} bytes of results that the queue has not acknowledged`,
      );
    }
    this.#count(name, bytes);
  }

  async #syncFolder(): Promise<void> {
    while (this.#folderChanged) {
      this.#folderChanged = false;
      try {
        const folder = await open(this.#folder);
        await folder.sync().finally(() => folder.close());
      } catch (error) {
        // The file itself is on disk; without this sync it may be missing after a power cut, and only then.
        this.#log.debug({ problem: (error as Error).message }, 'the spool folder could not be synced');
      }
    }
    this.#folderSync = null;
  }

  async #read(name: string): Promise<SpooledSettlement | null> {
    const content = await readFile(join(this.#folder, name), 'utf8');
    const end = content.indexOf('\n');
    const json = content.slice(end + 1);
    const [parsed] = parseFrames(Spooled, json, 'settlement');
    if (content.slice(0, end) !== checksum(json) || !parsed?.ok) return null;
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

  #after(attempt: string, run: () => Promise<void>): Promise<void> {
    const work = (this.#work.get(attempt) ?? Promise.resolve()).catch(() => {}).then(run);
    this.#work.set(attempt, work);
    const forget = () => {
      if (this.#work.get(attempt) === work) this.#work.delete(attempt);
    };
    work.then(forget, forget);
    return work;
  }
}

/** Removes a file that may not exist. Unlike `rm` it does no check first, which Node would do on the main thread. */
async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}

function attemptOf({ job_id, fence_token }: JobRef): string {
  return `${fence_token} ${job_id}`;
}

/**
 * Returns the file name of an attempt. Job ids are the caller's and may hold any character, so the name has their
 * digest.
 */
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
  return code === undefined ? (error as Error) : new Error(`${folder}: ${message}`);
}
