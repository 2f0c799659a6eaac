import type { HostedObject, ObjectHost } from '../durable/host.ts';
import { createTables, type Sql } from '../durable/ports.ts';
import { BucketError, BucketFile, type FileBucket, LostError } from './bucket-file.ts';
import { type JobFiles, READ_BYTES } from './file-index.ts';
import {
  addBytes,
  expired,
  FILE_TABLES,
  findStored,
  hasFiles,
  hasPieces,
  makeStored,
  nextExpiry,
  piecesOf,
  readPart,
  removePieces,
  removeStored,
  type StoredFile,
  setExpiry,
  setJob,
  streamOf,
} from './piece-table.ts';

/** An upload without a new piece for this long, ms, has been broken off: a sender counts as too slow long before. */
const UNFINISHED_MS = 300_000;

/** The time until a failed removal from the bucket is tried again, ms. */
const REMOVED_AGAIN_MS = 600_000;

/**
 * A file is stored for a job for this long before the queue is asked whether the job has it, ms: no call of the queue
 * that names the file takes so long.
 */
const UNASKED_MS = 3_600_000;
/** The time until a queue that did not answer is asked again, ms. */
const ASK_AGAIN_MS = 60_000;
/** The most expired files that one alarm handles, so that other work gets its turn. */
const BITE_FILES = 500;

/** The objects that this object asks. */
interface Asked {
  queue(queueId: string): JobFiles;
}

/**
 * Stores the bytes of a queue id's files. file-index.ts knows which files there are, whose they are and how long they
 * are stored. There is one object for the bytes of all files, since each object has a database of its own. Bytes arrive
 * in rows; if there is a bucket, the bytes of a file to which nothing more is added are moved there, one file at a
 * time.
 *
 * Payloads and results of jobs are stored before the queue names them. The queue never reports that it no longer needs
 * them: this object asks when their time is over. So a crash between two steps leaves a file that expires by itself,
 * and no job without its file. Every call may be made twice with the same effect as once.
 */
export class FileObject implements HostedObject {
  readonly #host: ObjectHost;
  readonly #objects: Asked;
  readonly #bucket: FileBucket | null;
  readonly #sql: Sql;
  /** The work on the bucket, which handles one file after another, so that it needs the memory of one. */
  #inBucket: Promise<unknown> = Promise.resolve();

  /** @param bucket null: all bytes stay in rows */
  constructor(host: ObjectHost, objects: Asked, bucket: FileBucket | null) {
    this.#host = host;
    this.#objects = objects;
    this.#bucket = bucket;
    this.#sql = host.sql;
    createTables(this.#sql, FILE_TABLES);
  }

  /** Responds with the content of a file: 404 if there is no such file, 503 if the bucket fails. */
  async content(id: string): Promise<Response> {
    const file = findStored(this.#sql, id);
    if (file === null) return new Response(null, { status: 404 });
    try {
      const inBucket = this.#bucketFile(id);
      const body = inBucket.isWhole ? await inBucket.content() : this.#stream(file);
      return new Response(body, { headers: { 'content-length': String(file.bytes) } });
    } catch (error) {
      if (!(error instanceof BucketError)) throw error;
      this.#log('error', 'the bucket of files cannot be used', error);
      return new Response(null, { status: 503 });
    }
  }

  /**
   * Stores a piece of an upload. The upload is removed unless the next piece, `keep` or `keepForJob` follows within
   * minutes.
   * @param number from 0; the first piece begins the file
   * @returns false if the earlier pieces are gone
   */
  async put(id: string, number: number, piece: Uint8Array): Promise<boolean> {
    const file = number === 0 ? makeStored(this.#sql, id) : findStored(this.#sql, id);
    if (file === null) return false;
    addBytes(this.#sql, file, number, piece);
    setExpiry(this.#sql, id, this.#host.now() + UNFINISHED_MS);
    this.#arm();
    return true;
  }

  /**
   * Completes a file: nothing is added to it any more.
   * @param expiresAt the epoch ms until which it is stored; null: until it is removed
   */
  async keep(id: string, expiresAt: number | null): Promise<void> {
    setExpiry(this.#sql, id, expiresAt);
    this.#arm();
    if (this.#bucket) await this.#inTurn(() => this.#moveToBucket(id));
  }

  /**
   * Completes a file that is the payload or a result of a job: it is stored for an hour, and then as long as the queue
   * says (`JobFiles`).
   * @returns false if the pieces are gone
   */
  async keepForJob(id: string, jobId: string): Promise<boolean> {
    if (!setJob(this.#sql, id, jobId, this.#host.now() + UNASKED_MS)) return false;
    this.#arm();
    if (this.#bucket) this.#host.background(this.#inTurn(() => this.#moveToBucket(id)));
    return true;
  }

  /** Returns the number of bytes of a file; null if nothing was ever stored under this id, or the file is gone. */
  async size(id: string): Promise<number | null> {
    return findStored(this.#sql, id)?.bytes ?? null;
  }

  /**
   * Reads a part of an uploaded file, at most READ_BYTES; shorter at the file's end, and empty if its bytes are lost.
   */
  async read(id: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const [part] = await this.readLines(id, [{ offset, length: Math.min(length, READ_BYTES) }]);
    return part!;
  }

  /**
   * Reads lines of an uploaded file, together at most READ_BYTES, or a single longer line; each line as `read` does.
   */
  async readLines(
    id: string,
    lines: { offset: number; length: number }[],
  ): Promise<Uint8Array<ArrayBuffer>[]> {
    const file = findStored(this.#sql, id);
    if (file === null) return lines.map(() => new Uint8Array());
    const inBucket = this.#bucketFile(id);
    const isInBucket = inBucket.isWhole;
    const read = lines.map(async ({ offset, length }) => {
      const wanted = Math.max(0, Math.min(length, file.bytes - offset));
      if (!isInBucket) return readPart(this.#sql, file, offset, wanted);
      return await inBucket.read(offset, wanted).catch((error: unknown) => {
        if (!(error instanceof LostError)) throw error;
        this.#log('error', 'a file of the bucket is lost', error);
        return new Uint8Array();
      });
    });
    return await Promise.all(read);
  }

  /** Adds lines whose keys the file does not have yet, in one commit. @returns the number of the file's bytes */
  async append(id: string, lines: { key: number; bytes: Uint8Array }[]): Promise<number> {
    const file = makeStored(this.#sql, id);
    for (const { key, bytes } of lines) addBytes(this.#sql, file, key, bytes);
    return findStored(this.#sql, id)!.bytes;
  }

  async remove(id: string): Promise<void> {
    const file = findStored(this.#sql, id);
    if (file === null) return;
    removePieces(this.#sql, file);
    // If the bucket does not delete the file now, the alarm deletes the file or aborts its upload later.
    setExpiry(this.#sql, id, this.#host.now() + REMOVED_AGAIN_MS);
    this.#arm();
    if (this.#bucket || this.#bucketFile(id).isThere) await this.#inTurn(() => this.#bucketFile(id).remove());
    removeStored(this.#sql, file);
    // A database keeps the room of deleted rows for later ones; once it is empty, the disk gets that room back.
    if (!hasFiles(this.#sql)) await this.#host.clear(() => createTables(this.#sql, FILE_TABLES));
    this.#arm();
  }

  async alarm(): Promise<void> {
    for (const id of await this.#ended(expired(this.#sql, this.#host.now(), BITE_FILES))) {
      await this.remove(id).catch((error: unknown) => this.#log('warn', 'a file is not removed yet', error));
    }
    this.#arm();
  }

  /** Returns the expired files to be removed. Files that jobs have, or may have, get more time. */
  async #ended(due: readonly { id: string; job: string | null }[]): Promise<string[]> {
    const ended = due.flatMap(({ id, job }) => (job === null ? [id] : []));
    const asked = due.flatMap(({ id, job }) => (job === null ? [] : [{ file: id, job }]));
    if (asked.length === 0) return ended;
    const keptUntil = await this.#keptUntil(asked).catch((error: unknown) => {
      this.#log('warn', 'the queue cannot be asked which files its jobs have; asking again later', error);
      return asked.map(() => this.#host.now() + ASK_AGAIN_MS);
    });
    for (const [index, { file }] of asked.entries()) {
      const until = keptUntil[index] ?? null;
      if (until === null) ended.push(file);
      else {
        setExpiry(this.#sql, file, until);
        if (this.#bucket) await this.#inTurn(() => this.#moveToBucket(file));
      }
    }
    return ended;
  }

  async #keptUntil(files: { file: string; job: string }[]): Promise<(number | null)[]> {
    return await this.#objects.queue(this.#host.queueId).filesKeptUntil(files);
  }

  /** Moves a file's bytes to the bucket; a file that the bucket rejects stays in rows. */
  async #moveToBucket(id: string): Promise<void> {
    const file = findStored(this.#sql, id);
    if (file === null || !hasPieces(this.#sql, file)) return;
    const inBucket = this.#bucketFile(id);
    try {
      if (!inBucket.isWhole) {
        await inBucket.remove();
        const writer = inBucket.writer();
        for (const bytes of piecesOf(this.#sql, file)) {
          writer.push(bytes);
          await writer.flush();
        }
        await writer.end();
      }
      removePieces(this.#sql, file);
    } catch (error) {
      this.#log('warn', 'a file stays in the database: the bucket does not take it', error);
    }
  }

  /** Streams a file's rows; the object stays at work until they have been read. */
  #stream(file: StoredFile): ReadableStream<Uint8Array> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#host.background(promise);
    return streamOf(piecesOf(this.#sql, file), resolve);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#inBucket.then(work);
    this.#inBucket = turn.catch(() => {});
    return turn;
  }

  #bucketFile(id: string): BucketFile {
    return new BucketFile(this.#sql, this.#bucket, id);
  }

  /** Sets the alarm to the time at which the next file expires. */
  #arm(): void {
    const at = nextExpiry(this.#sql);
    if (at === this.#host.alarm.get()) return;
    if (at === null) this.#host.alarm.clear();
    else this.#host.alarm.set(at);
  }

  #log(level: 'warn' | 'error', message: string, error: unknown): void {
    const { log, queueId } = this.#host;
    log(level, message, { queue_id: queueId, error: String((error as Error)?.message ?? error) });
  }
}
