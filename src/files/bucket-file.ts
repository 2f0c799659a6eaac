import type { Sql } from '../durable/ports.ts';
import { PieceCutter } from './upload.ts';

/** The length of an upload's parts: all must be equally long, at least 5 MiB; only the last may be shorter. */
const PART_BYTES = 8 * 1024 * 1024;

/** The part of an R2Bucket's interface that is used here. */
export interface FileBucket {
  put(key: string, bytes: Uint8Array): Promise<unknown>;
  get(
    key: string,
    options?: { range: { offset: number; length: number } },
  ): Promise<{ body: ReadableStream<Uint8Array>; arrayBuffer(): Promise<ArrayBuffer> } | null>;
  delete(key: string): Promise<void>;
  createMultipartUpload(key: string): Promise<MultipartUpload>;
  resumeMultipartUpload(key: string, uploadId: string): MultipartUpload;
}

interface MultipartUpload {
  uploadId: string;
  uploadPart(number: number, bytes: Uint8Array): Promise<Part>;
  complete(parts: Part[]): Promise<unknown>;
  abort(): Promise<void>;
}

/** The error of a bucket that fails a request; the message is for the operator. */
export class BucketError extends Error {
  override name = 'BucketError';
}

function asBucketError(error: unknown): never {
  throw new BucketError(String((error as Error)?.message ?? error));
}

interface Part {
  partNumber: number;
  etag: string;
}

/** The error of a bucket that has nothing under the key of a file that was stored there. */
export class LostError extends BucketError {
  override name = 'LostError';
}

/**
 * Stores the bytes of one file in the bucket. A row, committed before anything is sent, says what may lie in the
 * bucket: with the id of the upload while the upload is not complete, so that the object can end it after a crash;
 * without an id once the file is whole.
 */
export class BucketFile {
  readonly #sql: Sql;
  readonly #bucket: FileBucket | null;
  readonly #id: string;
  readonly #key: string;

  /** @param bucket null: none is bound, so nothing is stored there, and files that are there cannot be read */
  constructor(sql: Sql, bucket: FileBucket | null, id: string) {
    this.#sql = sql;
    this.#bucket = bucket;
    this.#id = id;
    this.#key = `files/${id}`;
  }

  get isWhole(): boolean {
    return this.#uploadId === null;
  }

  /** Whether bytes of the file may lie in the bucket. */
  get isThere(): boolean {
    return this.#uploadId !== undefined;
  }

  /** Makes a writer for the file's bytes. A file that was begun before must have been removed. */
  writer(): BucketWriter {
    return new BucketWriter(this.#bound, this.#key, (uploadId) =>
      this.#sql.exec(`INSERT OR REPLACE INTO in_bucket (id, upload_id) VALUES (?, ?)`, this.#id, uploadId),
    );
  }

  /** Returns the file's bytes as a stream. @throws BucketError */
  async content(): Promise<ReadableStream<Uint8Array>> {
    return (await this.#get()).body;
  }

  /** Reads a part of the file. @throws BucketError */
  async read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    if (length <= 0) return new Uint8Array();
    return new Uint8Array(await (await this.#get({ range: { offset, length } })).arrayBuffer());
  }

  /** Aborts the file's unfinished upload, or deletes the whole file. May be repeated. */
  async remove(): Promise<void> {
    const uploadId = this.#uploadId;
    if (uploadId === undefined) return;
    if (uploadId) {
      // The upload may have been completed or aborted before.
      const upload = this.#bound.resumeMultipartUpload(this.#key, uploadId);
      await upload.abort().catch(() => {});
    }
    await this.#bound.delete(this.#key);
    this.#sql.exec(`DELETE FROM in_bucket WHERE id = ?`, this.#id);
  }

  async #get(options?: { range: { offset: number; length: number } }) {
    const found = await this.#bound.get(this.#key, options).catch(asBucketError);
    if (found === null) throw new LostError(`the bucket has no object ${this.#key}`);
    return found;
  }

  /**
   * The id of the file's unfinished upload, '' for a simple one; null: the file is whole; undefined: nothing is there.
   */
  get #uploadId(): string | null | undefined {
    return this.#sql.exec(`SELECT upload_id FROM in_bucket WHERE id = ?`, this.#id)[0]?.upload_id as
      | string
      | null
      | undefined;
  }

  get #bound(): FileBucket {
    if (this.#bucket === null) throw new BucketError('no bucket is bound as FILES now: bind it again');
    return this.#bucket;
  }
}

/** Sends a file's bytes to the bucket a part at a time; a file no longer than one part is sent at once. */
class BucketWriter {
  readonly #bucket: FileBucket;
  readonly #key: string;
  readonly #note: (uploadId: string | null) => void;
  readonly #cutter = new PieceCutter(PART_BYTES, (piece) => this.#full.push(piece.slice()));
  /** The parts that are full and have not been sent. */
  #full: Uint8Array[] = [];
  #upload: MultipartUpload | null = null;
  readonly #parts: Part[] = [];

  constructor(bucket: FileBucket, key: string, note: (uploadId: string | null) => void) {
    this.#bucket = bucket;
    this.#key = key;
    this.#note = note;
  }

  push(bytes: Uint8Array): void {
    this.#cutter.push(bytes);
  }

  /**
   * Sends full parts. Callers await this before they push more; otherwise parts gather in memory. @throws BucketError
   */
  async flush(): Promise<void> {
    await this.#send().catch(asBucketError);
  }

  /** Sends the rest of the file, which is then whole. @throws BucketError */
  async end(): Promise<void> {
    await this.#end().catch(asBucketError);
  }

  async #send(): Promise<void> {
    for (let part = this.#full.shift(); part !== undefined; part = this.#full.shift()) {
      if (this.#upload === null) {
        this.#upload = await this.#bucket.createMultipartUpload(this.#key);
        this.#note(this.#upload.uploadId);
      }
      this.#parts.push(await this.#upload.uploadPart(this.#parts.length + 1, part));
    }
  }

  async #end(): Promise<void> {
    this.#cutter.end();
    if (this.#upload === null && this.#full.length <= 1) {
      // The row says that the file may be there, so that the file is deleted after a crash.
      this.#note('');
      await this.#bucket.put(this.#key, this.#full[0] ?? new Uint8Array());
    } else {
      await this.#send();
      await this.#upload?.complete(this.#parts);
    }
    this.#note(null);
  }
}
