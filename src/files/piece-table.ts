import type { Sql } from '../durable/ports.ts';
import { PIECE_BYTES } from './rpc.ts';

/** Statements on the bytes of files. Nothing here decides. All times in epoch ms. */

/** The object's database as the runtime gives it: the port of rules (durable/ports.ts) knows no bytes. */
export interface ByteSql {
  exec(
    query: string,
    ...bindings: unknown[]
  ): Iterable<Record<string, unknown>> & { readonly rowsWritten: number };
}

export const FILE_TABLES: readonly string[] = [
  // job: whose payload or result it is, if it is one.
  `CREATE TABLE files (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     bytes INTEGER NOT NULL DEFAULT 0,
     expires_at INTEGER,
     job TEXT
   )`,
  `CREATE INDEX files_expire ON files (expires_at) WHERE expires_at IS NOT NULL`,
  // key: number of a piece of an upload, or of the line that a batch wrote; a long line has several parts.
  `CREATE TABLE pieces (
     seq INTEGER PRIMARY KEY,
     file INTEGER NOT NULL,
     key INTEGER NOT NULL,
     part INTEGER NOT NULL,
     bytes BLOB NOT NULL,
     UNIQUE (file, key, part)
   )`,
  // In the order in which they came.
  `CREATE INDEX pieces_file ON pieces (file)`,
  // upload_id: of a multipart upload that is not complete, or '' of a simple one; null: the whole file is there.
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

/** @param expiresAt null: it does not */
export function setExpiry(sql: Sql, id: string, expiresAt: number | null): void {
  sql.exec(`UPDATE files SET expires_at = ? WHERE id = ?`, expiresAt, id);
}

/** @returns false: there is no such file */
export function setJob(sql: Sql, id: string, job: string, expiresAt: number): boolean {
  const set = sql.exec(
    `UPDATE files SET job = ?, expires_at = ? WHERE id = ? RETURNING id`,
    job,
    expiresAt,
    id,
  );
  return set.length > 0;
}

/** Those whose time is over, so many at most; with the job that may have it, if one may. */
export function expired(sql: Sql, now: number, most: number): { id: string; job: string | null }[] {
  const due = sql.exec(
    `SELECT id, job FROM files WHERE expires_at <= ? ORDER BY expires_at LIMIT ?`,
    now,
    most,
  );
  return due.map(({ id, job }) => ({ id: String(id), job: job as string | null }));
}

/** When the next one's time is over; null: none expires. */
export function nextExpiry(sql: Sql): number | null {
  return (sql.exec(`SELECT min(expires_at) AS at FROM files`)[0]?.at ?? null) as number | null;
}

export function hasFiles(sql: Sql): boolean {
  return sql.exec(`SELECT 1 FROM files LIMIT 1`).length > 0;
}

/** Where this key has nothing yet. */
export function addBytes(sql: ByteSql, { seq }: StoredFile, key: number, bytes: Uint8Array): void {
  const insert = `INSERT OR IGNORE INTO pieces (file, key, part, bytes) VALUES (?, ?, ?, ?)`;
  const first = sql.exec(insert, seq, key, 0, bytes.subarray(0, PIECE_BYTES));
  if (first.rowsWritten === 0) return;
  for (let at = PIECE_BYTES, part = 1; at < bytes.byteLength; at += PIECE_BYTES, part++) {
    sql.exec(insert, seq, key, part, bytes.subarray(at, at + PIECE_BYTES));
  }
  sql.exec(`UPDATE files SET bytes = bytes + ? WHERE seq = ?`, bytes.byteLength, seq);
}

/** A part of an uploaded file: all of its pieces but the last have one length. Shorter where pieces are gone. */
export function readPart(
  sql: ByteSql,
  { seq }: StoredFile,
  offset: number,
  length: number,
): Uint8Array<ArrayBuffer> {
  const read = new Uint8Array(length);
  let at = 0;
  while (at < length) {
    const key = Math.floor((offset + at) / PIECE_BYTES);
    // Of a long piece for a short line no more than that: its whole would be garbage at once. They count from 1.
    const [piece] = sql.exec(
      `SELECT substr(bytes, ?, ?) AS bytes FROM pieces WHERE file = ? AND key = ? AND part = 0`,
      offset + at - key * PIECE_BYTES + 1,
      length - at,
      seq,
      key,
    );
    const bytes = new Uint8Array((piece?.bytes ?? new ArrayBuffer()) as ArrayBuffer);
    if (bytes.byteLength === 0) break;
    read.set(bytes, at);
    at += bytes.byteLength;
  }
  // Not a part of a buffer: a call would carry all of it.
  return at === length ? read : read.slice(0, at);
}

/** Pieces that are read for one write to the caller. */
const PIECES_A_READ = 64;
const READ_AT_LEAST = 1024 * 1024;

/** All pieces in the order in which they came, but for those that come after this call. */
export function contentOf(sql: ByteSql, { seq: file }: StoredFile): ReadableStream<Uint8Array> {
  let after = 0;
  const [newest] = sql.exec(`SELECT max(seq) AS seq FROM pieces WHERE file = ?`, file);
  const last = Number(newest?.seq);
  return new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const rows = sql.exec(
        `SELECT seq, bytes FROM pieces WHERE file = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
        file,
        after,
        last,
        PIECES_A_READ,
      );
      let bytes = 0;
      for (const row of rows) {
        const piece = new Uint8Array(row.bytes as ArrayBuffer);
        after = Number(row.seq);
        if (piece.byteLength > 0) controller.enqueue(piece);
        bytes += piece.byteLength;
        if (bytes >= READ_AT_LEAST) break;
      }
      if (bytes === 0) controller.close();
    },
  });
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
