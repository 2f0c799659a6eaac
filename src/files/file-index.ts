import type { Row, Sql } from '../durable/ports.ts';
import type { FilePurpose } from '../protocol/file-answers.ts';

/** The facts about a file beside its bytes. */
export interface FileRecord {
  id: string;
  /** The tenant that owns the file; null: it was created while no tokens were configured. */
  tenant: string | null;
  filename: string;
  purpose: FilePurpose;
  bytes: number;
  /** The time of creation, epoch ms. */
  created_at: number;
  /** When the file expires, epoch ms; null: it is stored until it is deleted. */
  expires_at: number | null;
}

/** The length of the pieces of an upload; the last may be shorter. A row holds at most 2 MB on Cloudflare. */
export const PIECE_BYTES = 128 * 1024;

/** Tells which files jobs have; implemented by the queue object of the same id. */
export interface JobFiles {
  /**
   * Returns, in order, until when each file is stored at least, epoch ms; after that time the queue is asked again.
   * Null: the file's job no longer has it.
   */
  filesKeptUntil(files: { file: string; job: string }[]): Promise<(number | null)[]>;
}

/** The most bytes that one call carries; a single line may have more. */
export const READ_BYTES = 8 * 1024 * 1024;

export const FILE_INDEX_TABLES = [
  `CREATE TABLE files (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     tenant TEXT,
     filename TEXT NOT NULL,
     purpose TEXT NOT NULL,
     bytes INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     expires_at INTEGER
   )`,
  `CREATE INDEX files_expire ON files (expires_at) WHERE expires_at IS NOT NULL`,
];

/** The files that a list shows. */
export interface FilesWanted {
  purpose: FilePurpose | null;
  /** The last file of the previous page; null: the first page is requested. */
  after: string | null;
  order: 'asc' | 'desc';
  limit: number;
  /** The tenant that asks, which sees its own files alone; null sees all files. */
  viewer: string | null;
}

export interface FilePage {
  files: FileRecord[];
  has_more: boolean;
}

export function addFile(sql: Sql, file: FileRecord): void {
  sql.exec(
    `INSERT OR REPLACE INTO files (id, tenant, filename, purpose, bytes, created_at, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    file.id,
    file.tenant,
    file.filename,
    file.purpose,
    file.bytes,
    file.created_at,
    file.expires_at,
  );
}

/**
 * Finds a file that the viewer may see.
 * @param viewer null sees all
 * @param now epoch ms; a file that has expired by then is not found
 */
export function findFile(sql: Sql, id: string, viewer: string | null, now: number): FileRecord | null {
  const [row] = sql.exec(
    `SELECT * FROM files WHERE id = ? AND (expires_at IS NULL OR expires_at > ?)`,
    id,
    now,
  );
  const file = row ? fileOf(row) : null;
  return file !== null && (viewer === null || viewer === file.tenant) ? file : null;
}

/** Returns a page of the files that the viewer may see; null if `after` is no file of the viewer's. */
export function listFiles(sql: Sql, wanted: FilesWanted, now: number): FilePage | null {
  const { purpose, after, order, limit, viewer } = wanted;
  const from =
    after === null
      ? null
      : (sql.exec(`SELECT seq FROM files WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)`, after, viewer)[0]
          ?.seq as number | undefined);
  if (from === undefined) return null;
  const [comparison, direction] = order === 'asc' ? ['>', 'ASC'] : ['<', 'DESC'];
  const rows = sql.exec(
    `SELECT * FROM files
     WHERE (?1 IS NULL OR seq ${comparison} ?1) AND (?2 IS NULL OR purpose = ?2)
       AND (?3 IS NULL OR tenant = ?3) AND (expires_at IS NULL OR expires_at > ?4)
     ORDER BY seq ${direction} LIMIT ?5`,
    from,
    purpose,
    viewer,
    now,
    limit + 1,
  );
  return { files: rows.slice(0, limit).map(fileOf), has_more: rows.length > limit };
}

export function removeFile(sql: Sql, id: string): void {
  sql.exec(`DELETE FROM files WHERE id = ?`, id);
}

/**
 * Deletes expired files from the list; their bytes expire by themselves.
 * @returns when the next file expires, epoch ms; null: none does
 */
export function forgetExpired(sql: Sql, now: number): number | null {
  sql.exec(`DELETE FROM files WHERE expires_at <= ?`, now);
  return (sql.exec(`SELECT min(expires_at) AS at FROM files`)[0]?.at ?? null) as number | null;
}

function fileOf(row: Row): FileRecord {
  return {
    id: String(row.id),
    tenant: row.tenant as string | null,
    filename: String(row.filename),
    purpose: row.purpose as FilePurpose,
    bytes: Number(row.bytes),
    created_at: Number(row.created_at),
    expires_at: row.expires_at as number | null,
  };
}
