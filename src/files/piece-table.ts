import type { Row, Sql } from '../durable/ports.ts';
import { joinBytes } from '../protocol/index.ts';
import { PIECE_BYTES } from './file-index.ts';

/** The statements on the bytes of files. Nothing here decides. All times are in epoch ms. */

export const FILE_TABLES: readonly string[] = [
  // job: the job whose payload or result the file is; null: it is neither.
  `CREATE TABLE files (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     bytes INTEGER NOT NULL DEFAULT 0,
     expires_at INTEGER,
     job TEXT
   )`,
  `CREATE INDEX files_expire ON files (expires_at) WHERE expires_at IS NOT NULL`,
  // key: the number of a piece of an upload, or of the line that a batch wrote; a long line has several pieces.
  `CREATE TABLE pieces (
     seq INTEGER PRIMARY KEY,
     file INTEGER NOT NULL,
     key INTEGER NOT NULL,
     part INTEGER NOT NULL,
     bytes BLOB NOT NULL,
     UNIQUE (file, key, part)
   )`,
  // This index yields pieces in the order in which they were stored.
  `CREATE INDEX pieces_file ON pieces (file)`,
  // upload_id: the id of a multipart upload that is not complete, or '' for a simple upload; null: the whole file is
  // there.
  `CREATE TABLE in_bucket (id TEXT PRIMARY KEY, upload_id TEXT) WITHOUT ROWID`,
];

export interface StoredFile {
  seq: number;
  bytes: number;
}

export function findStored(sql: Sql, id: string): StoredFile | null {
  const [row] = sql.exec(`SELECT seq, bytes FROM files WHERE id = ?`, id);
  return row ? { seq: Number(row.seq), bytes: Number(row.bytes) } : null;
}

export function makeStored(sql: Sql, id: string): StoredFile {
  sql.exec(`INSERT OR IGNORE INTO files (id) VALUES (?)`, id);
  return findStored(sql, id)!;
}

/** Sets when a file expires. @param expiresAt epoch ms; null: never */
export function setExpiry(sql: Sql, id: string, expiresAt: number | null): void {
  sql.exec(`UPDATE files SET expires_at = ? WHERE id = ?`, expiresAt, id);
}

/** Notes the job that a file belongs to. @returns false if there is no such file */
export function setJob(sql: Sql, id: string, job: string, expiresAt: number): boolean {
  const set = sql.exec(
    `UPDATE files SET job = ?, expires_at = ? WHERE id = ? RETURNING id`,
    job,
    expiresAt,
    id,
  );
  return set.length > 0;
}

/** Returns at most `most` expired files, each with the job that may have it, if there is one. */
export function expired(sql: Sql, now: number, most: number): { id: string; job: string | null }[] {
  const due = sql.exec(
    `SELECT id, job FROM files WHERE expires_at <= ? ORDER BY expires_at LIMIT ?`,
    now,
    most,
  );
  return due.map(({ id, job }) => ({ id: String(id), job: job as string | null }));
}

/** Returns when the next file expires; null if none does. */
export function nextExpiry(sql: Sql): number | null {
  return (sql.exec(`SELECT min(expires_at) AS at FROM files`)[0]?.at ?? null) as number | null;
}

export function hasFiles(sql: Sql): boolean {
  return sql.exec(`SELECT 1 FROM files LIMIT 1`).length > 0;
}

/** Adds bytes under a key, unless there are bytes under it already. */
export function addBytes(sql: Sql, { seq }: StoredFile, key: number, bytes: Uint8Array): void {
  const insert = (part: number) => {
    const at = part * PIECE_BYTES;
    return sql.exec(
      `INSERT OR IGNORE INTO pieces (file, key, part, bytes) VALUES (?, ?, ?, ?) RETURNING 1`,
      seq,
      key,
      part,
      bytes.subarray(at, at + PIECE_BYTES),
    );
  };
  if (insert(0).length === 0) return;
  for (let part = 1; part * PIECE_BYTES < bytes.byteLength; part++) insert(part);
  sql.exec(`UPDATE files SET bytes = bytes + ? WHERE seq = ?`, bytes.byteLength, seq);
}

/**
 * Reads a part of an uploaded file, whose pieces are equally long except the last. Returns fewer bytes if pieces are
 * gone.
 */
export function readPart(
  sql: Sql,
  { seq }: StoredFile,
  offset: number,
  length: number,
): Uint8Array<ArrayBuffer> {
  const read = new Uint8Array(length);
  let at = 0;
  while (at < length) {
    const key = Math.floor((offset + at) / PIECE_BYTES);
    // Only the requested bytes of a long piece are read, since the whole piece would become garbage at once. SQL's
    // substr counts bytes from 1.
    const [piece] = sql.exec(
      `SELECT substr(bytes, ?, ?) AS bytes FROM pieces WHERE file = ? AND key = ? AND part = 0`,
      offset + at - key * PIECE_BYTES + 1,
      length - at,
      seq,
      key,
    );
    const bytes = bytesOf(piece);
    if (bytes.byteLength === 0) break;
    read.set(bytes, at);
    at += bytes.byteLength;
  }
  // The part is copied, since a call would carry the whole buffer.
  return at === length ? read : read.slice(0, at);
}

/** The most pieces that are read at once. */
const PIECES_A_READ = 64;
/** Once this many bytes are to be read at once, no further piece is added. */
const READ_AT_LEAST = 1024 * 1024;

/** Yields all pieces in the order in which they were stored, except those stored after this call. */
export function piecesOf(sql: Sql, { seq: file }: StoredFile): Generator<Uint8Array, void> {
  const [newest] = sql.exec(`SELECT max(seq) AS seq FROM pieces WHERE file = ?`, file);
  return piecesUntil(sql, file, Number(newest?.seq));
}

function* piecesUntil(sql: Sql, file: number, last: number): Generator<Uint8Array, void> {
  for (let after = 0; ; ) {
    // The length of a long piece can be had without reading it.
    const lengths = sql.exec(
      `SELECT seq, length(bytes) AS bytes FROM pieces WHERE file = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
      file,
      after,
      last,
      PIECES_A_READ,
    );
    let [until, bytes] = [after, 0];
    for (const row of lengths) {
      if (bytes >= READ_AT_LEAST) break;
      until = Number(row.seq);
      bytes += Number(row.bytes);
    }
    if (until === after) return;
    const rows = sql.exec(
      `SELECT bytes FROM pieces WHERE file = ? AND seq > ? AND seq <= ? ORDER BY seq`,
      file,
      after,
      until,
    );
    after = until;
    const pieces = rows.map(bytesOf);
    // Short lines are joined, since a write to the reader costs more than copying them.
    if (bytes < READ_AT_LEAST) yield joinBytes(pieces);
    else yield* pieces;
  }
}

/** Streams pieces as the reader asks for them. @param over is called once nothing more is read */
export function streamOf(pieces: Iterator<Uint8Array, void>, over: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    pull: (controller) => {
      try {
        const { value, done } = pieces.next();
        if (!done) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      over();
    },
    cancel: over,
  });
}

/** Returns a row's bytes in one form, since hosts differ in how they return them. */
function bytesOf(row: Row | undefined): Uint8Array {
  const bytes = row?.bytes ?? new ArrayBuffer();
  return bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : (bytes as Uint8Array);
}

export function hasPieces(sql: Sql, { seq }: StoredFile): boolean {
  return sql.exec(`SELECT 1 FROM pieces WHERE file = ? LIMIT 1`, seq).length > 0;
}

export function removePieces(sql: Sql, { seq }: StoredFile): void {
  sql.exec(`DELETE FROM pieces WHERE file = ?`, seq);
}

export function removeStored(sql: Sql, { seq }: StoredFile): void {
  sql.exec(`DELETE FROM files WHERE seq = ?`, seq);
}
