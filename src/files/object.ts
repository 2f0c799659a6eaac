import { DurableObject } from 'cloudflare:workers';
import { sqlOf } from '../durable/storage.ts';
import { boundaryOf } from '../protocol/index.ts';
import { BucketError, BucketFile, type FileBucket } from './bucket-file.ts';
import { FormError, type FormFields, FormReader } from './form-reader.ts';
import { PieceCutter } from './piece-cutter.ts';
import { type FileRpc, MOST_BYTES_HEADER, READ_BYTES, type UploadAnswer } from './rpc.ts';

/** A row holds at most 2 MB on Cloudflare. */
const PIECE_BYTES = 1024 * 1024;

/** An upload that is not listed by then was broken off, or refused by a gateway that ended before it said so. */
const LISTED_WITHIN_MS = 3_600_000;

/** After this time it is tried again to remove what lies in the bucket, ms. */
const REMOVED_AGAIN_MS = 600_000;

/** Rows that are read for one write to the caller. */
const ROWS_A_READ = 64;

interface FileEnv {
  /** Left out: all bytes lie in rows. */
  FILES?: FileBucket;
}

/**
 * The Durable Object of one file: its bytes, in the order in which they came, and nothing else. That it exists, whose it
 * is and until when is known elsewhere (file-index.ts), so that no upload stands in anybody's way. Where a bucket is
 * bound, what is uploaded goes there, and what a batch has written as soon as it is complete; what is added to line by
 * line lies in rows.
 */
export class FileObject extends DurableObject<FileEnv> implements FileRpc {
  readonly #sql: SqlStorage;
  readonly #inBucket: BucketFile;
  /** Bytes of all pieces: to add them up visits every row. */
  #inRows: number;
  #moving: Promise<void> | null = null;

  constructor(ctx: DurableObjectState, env: FileEnv) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#createTable();
    this.#inBucket = new BucketFile(sqlOf(ctx.storage), env.FILES ?? null, `files/${ctx.id}`);
    this.#inRows = Number(this.#sql.exec(`SELECT total(length(bytes)) AS bytes FROM pieces`).one().bytes);
  }

  get #bytes(): number {
    return this.#inBucket.bytes ?? this.#inRows;
  }

  override async fetch(request: Request): Promise<Response> {
    try {
      if (request.method === 'PUT') return Response.json(await this.#upload(request));
      const length = this.#bytes;
      const body = this.#inBucket.bytes ? await this.#inBucket.content() : this.#rows();
      return new Response(body, { headers: { 'content-length': String(length) } });
    } catch (error) {
      if (!(error instanceof BucketError)) throw error;
      log('error', 'the bucket of files cannot be used', error);
      return new Response(null, { status: 503 });
    }
  }

  async keep(expiresAt: number | null): Promise<void> {
    if (expiresAt === null) await this.ctx.storage.deleteAlarm();
    else await this.ctx.storage.setAlarm(expiresAt);
    this.#moving ??= this.#moveToBucket().finally(() => {
      this.#moving = null;
    });
    await this.#moving;
  }

  async size(): Promise<number | null> {
    return (await this.ctx.storage.getAlarm()) === null && this.#bytes === 0 ? null : this.#bytes;
  }

  async read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const [part] = await this.readLines([{ offset, length: Math.min(length, READ_BYTES) }]);
    return part!;
  }

  async readLines(lines: { offset: number; length: number }[]): Promise<Uint8Array<ArrayBuffer>[]> {
    const inBucket = this.#inBucket.bytes;
    const bytes = inBucket ?? this.#inRows;
    const read = lines.map(({ offset, length }) => {
      const wanted = Math.max(0, Math.min(length, bytes - offset));
      return inBucket ? this.#inBucket.read(offset, wanted) : this.#readRows(offset, wanted);
    });
    return await Promise.all(read);
  }

  /** Of an uploaded file: all of its rows but the last have one length. */
  #readRows(offset: number, length: number): Uint8Array<ArrayBuffer> {
    const part = new Uint8Array(length);
    for (let at = 0; at < length; ) {
      const row = Math.floor((offset + at) / PIECE_BYTES);
      const from = offset + at - row * PIECE_BYTES;
      // Of a long row for a short line no more than that: its whole would be garbage at once. Both count from 1.
      const { bytes } = this.#sql
        .exec<{ bytes: ArrayBuffer }>(
          `SELECT substr(bytes, ?, ?) AS bytes FROM pieces WHERE seq = ?`,
          from + 1,
          length - at,
          row + 1,
        )
        .one();
      part.set(new Uint8Array(bytes), at);
      at += bytes.byteLength;
    }
    return part;
  }

  async append(lines: { key: number; bytes: Uint8Array }[]): Promise<number> {
    for (const { key, bytes } of lines) {
      const [first, rest] = [bytes.subarray(0, PIECE_BYTES), bytes.subarray(PIECE_BYTES)];
      const added = this.#sql.exec(`INSERT OR IGNORE INTO pieces (key, bytes) VALUES (?, ?)`, key, first);
      if (added.rowsWritten === 0) continue;
      for (let at = 0; at < rest.byteLength; at += PIECE_BYTES) {
        this.#sql.exec(`INSERT INTO pieces (bytes) VALUES (?)`, rest.subarray(at, at + PIECE_BYTES));
      }
      this.#inRows += bytes.byteLength;
    }
    return this.#bytes;
  }

  /** What the bucket does not delete now the alarm deletes, or aborts, later. */
  async remove(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + REMOVED_AGAIN_MS);
    await this.#discard();
    await this.ctx.storage.deleteAlarm();
    await this.ctx.storage.deleteAll();
    this.#createTable();
    this.#inBucket.createTable();
  }

  override async alarm(): Promise<void> {
    await this.remove();
  }

  async #upload(request: Request): Promise<UploadAnswer> {
    await this.ctx.storage.setAlarm(Date.now() + LISTED_WITHIN_MS);
    // An upload under this id that was broken off, and is repeated.
    await this.#discard();
    const most = Number(request.headers.get(MOST_BYTES_HEADER));
    const writer = this.#inBucket.isBound ? this.#inBucket.writer() : this.#rowWriter();
    const form = readerOf(request, writer);
    let failure: Extract<UploadAnswer, { ok: false }> | null = null;
    // The rest of one that is refused is read too: a client that is still sending would not hear the answer.
    for await (const bytes of request.body ?? []) {
      if (failure !== null) continue;
      failure = pushed(form, bytes) ?? (writer.bytes > most ? tooLong(most) : null);
      if (failure !== null) await this.#discard();
      else await writer.flush();
    }
    if (failure !== null) return failure;
    await writer.end();
    this.#inRows = this.#inBucket.isBound ? 0 : writer.bytes;
    try {
      const { filename, fields } = form.end();
      return { ok: true, filename, fields: Object.fromEntries(fields), bytes: writer.bytes };
    } catch (error) {
      return notAForm(error);
    }
  }

  #rowWriter(): FileWriter {
    const cutter = new PieceCutter(PIECE_BYTES, (piece) =>
      this.#sql.exec(`INSERT INTO pieces (bytes) VALUES (?)`, piece),
    );
    return {
      push: (bytes) => cutter.push(bytes),
      flush: async () => {},
      end: async () => cutter.end(),
      get bytes() {
        return cutter.bytes;
      },
    };
  }

  /** Of what batches wrote, as soon as they add nothing more. One that the bucket does not take stays in rows. */
  async #moveToBucket(): Promise<void> {
    if (!this.#inBucket.isBound || this.#inRows === 0) return;
    try {
      await this.#inBucket.remove();
      const writer = this.#inBucket.writer();
      const reader = this.#rows().getReader();
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        writer.push(read.value);
        await writer.flush();
      }
      await writer.end();
      this.#clear();
    } catch (error) {
      log('warn', 'a file stays in the database: the bucket does not take it', error);
    }
  }

  async #discard(): Promise<void> {
    this.#clear();
    await this.#inBucket.remove();
  }

  /** `key`: of a line that is appended, so that it is there once; null in an upload. */
  #createTable(): void {
    this.#sql.exec(
      `CREATE TABLE IF NOT EXISTS pieces (seq INTEGER PRIMARY KEY, key INTEGER UNIQUE, bytes BLOB NOT NULL)`,
    );
  }

  #clear(): void {
    this.#sql.exec(`DELETE FROM pieces`);
    this.#inRows = 0;
  }

  #rows(): ReadableStream<Uint8Array> {
    let after = 0;
    // What a batch adds meanwhile is not in the length that was told.
    const last = Number(this.#sql.exec(`SELECT max(seq) AS seq FROM pieces`).one().seq);
    return new ReadableStream<Uint8Array>({
      pull: (controller) => {
        const rows = this.#sql.exec<{ seq: number; bytes: ArrayBuffer }>(
          `SELECT seq, bytes FROM pieces WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
          after,
          last,
          ROWS_A_READ,
        );
        let bytes = 0;
        for (const row of rows) {
          after = row.seq;
          if (row.bytes.byteLength > 0) controller.enqueue(new Uint8Array(row.bytes));
          bytes += row.bytes.byteLength;
          if (bytes >= PIECE_BYTES) break;
        }
        if (bytes > 0) return;
        controller.close();
      },
    });
  }
}

/** Where the bytes of a file go. */
interface FileWriter {
  push(bytes: Uint8Array): void;
  /** Makes room for more; to be awaited in between. */
  flush(): Promise<void>;
  end(): Promise<void>;
  /** All that was pushed. */
  readonly bytes: number;
}

/** What takes the bytes of an upload: a form, or the file as it is. */
interface UploadReader {
  push(bytes: Uint8Array): void;
  end(): FormFields;
}

function readerOf(request: Request, writer: FileWriter): UploadReader {
  const boundary = boundaryOf(request.headers.get('content-type'));
  if (boundary !== null) return new FormReader(boundary, (bytes) => writer.push(bytes));
  return {
    push: (bytes) => writer.push(bytes),
    end: () => ({ filename: '', fields: new Map() }),
  };
}

function pushed(form: UploadReader, bytes: Uint8Array): Extract<UploadAnswer, { ok: false }> | null {
  try {
    form.push(bytes);
    return null;
  } catch (error) {
    return notAForm(error);
  }
}

function log(level: 'warn' | 'error', msg: string, error: unknown): void {
  console.log(JSON.stringify({ level, msg, error: String((error as Error)?.message ?? error) }));
}

function notAForm(error: unknown): Extract<UploadAnswer, { ok: false }> {
  if (!(error instanceof FormError)) throw error;
  return {
    ok: false,
    status: 400,
    message: `The body is not a multipart form as expected: ${error.message}.`,
  };
}

function tooLong(most: number): Extract<UploadAnswer, { ok: false }> {
  const message = `The file is larger than ${Math.floor(most / 1024 / 1024)} MiB. The variable QUEUE_MAX_FILE_BYTES sets this limit.`;
  return { ok: false, status: 413, message };
}
