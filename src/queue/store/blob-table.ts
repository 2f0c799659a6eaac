import { due } from './alarm.ts';
import type { Sql, Storage } from './ports.ts';
import { row, rows } from './rows.ts';

/**
 * Long texts that lie in a bucket instead of in rows. The rules know their keys; text-calls.ts moves the bytes.
 * No key is ever used twice. The states of one, in `bucket_files`:
 *
 * - `uploading`  noted before its bytes are put. → `payload` or `upload` when they are there; → `due` when they
 *                are not, when nobody wants them any more, or after UPLOAD_MS, should this object have ended
 * - `payload`    of a job. → `due` when the job is forgotten
 * - `upload`     a result that was not announced yet. → `result` when it is; → `due` when the job is settled
 *                in any other way, or another upload replaces it
 * - `result`     of a job. → `due` when the job is forgotten
 * - `due`        to be deleted at `delete_at`. The row goes when the bucket has done so
 *
 * Bytes are deleted in no state but `due`, and nothing leads out of `due`.
 */

/** A put that takes longer is taken for dead, ms: no request lives so long. */
const UPLOAD_MS = 3_600_000;
/** When a deletion that was not confirmed is tried again, ms. */
const AGAIN_MS = 60_000;
/** Keys deleted by one call: R2 takes 1000. */
const BITE_KEYS = 500;
/** Between two bites, ms. */
const PAUSE_MS = 50;

/** Stands for a text that lies in the bucket. */
export class InBucket {
  readonly key: string;
  constructor(key: string) {
    this.key = key;
  }
}

/** Whose a key is: what owns it decides when it is forgotten. Ids are unique within a kind. */
export interface FileOwner {
  kind: 'job';
  id: string;
}

/** A key that something may have been put under. */
export interface BucketFile {
  key: string;
  owner: FileOwner;
}

/** Keys to be deleted from the bucket now. */
export interface Deletion {
  keys: string[];
  /** Epoch ms at which they are due again unless they are confirmed. */
  again_at: number;
}

/** To be committed before anything is put there. */
export function beginFile(storage: Storage, { key, owner }: BucketFile): void {
  const deleteAt = storage.now() + UPLOAD_MS;
  storage.sql.exec(
    `INSERT INTO bucket_files (key, owner_kind, owner_id, state, delete_at) VALUES (?, ?, ?, 'uploading', ?)`,
    key,
    owner.kind,
    owner.id,
    deleteAt,
  );
  due(storage, deleteAt);
}

/**
 * What was put there is the payload of its job; false: it took too long.
 * @param suitsBase whether a base worker can run it, which cannot be seen later without the bytes
 */
export function keepPayload(storage: Storage, key: string, sha256: string, suitsBase: boolean): boolean {
  const kept = storage.sql.exec(
    `UPDATE bucket_files SET state = 'payload', sha256 = ?, suits_base = ?, delete_at = NULL
     WHERE key = ? AND state = 'uploading' RETURNING key`,
    sha256,
    suitsBase ? 1 : 0,
    key,
  );
  return kept.length > 0;
}

/** What was put there is a result of that attempt; false: it took too long. */
export function keepUpload(storage: Storage, key: string, fenceToken: number): boolean {
  const kept = storage.sql.exec(
    `UPDATE bucket_files SET state = 'upload', fence_token = ?, delete_at = NULL
     WHERE key = ? AND state = 'uploading' RETURNING key`,
    fenceToken,
    key,
  );
  return kept.length > 0;
}

/** Makes the upload of this attempt the job's result; false: there is none. */
export function keepResult(sql: Sql, jobId: string, fenceToken: number): boolean {
  const kept = sql.exec(
    `UPDATE bucket_files SET state = 'result' WHERE owner_kind = 'job' AND owner_id = ? AND fence_token = ? AND state = 'upload' RETURNING key`,
    jobId,
    fenceToken,
  );
  return kept.length > 0;
}

export function dropUploaded(storage: Storage, jobId: string): void {
  storage.sql.exec(
    `UPDATE bucket_files SET state = 'due', delete_at = ? WHERE owner_kind = 'job' AND owner_id = ? AND state = 'upload'`,
    storage.now(),
    jobId,
  );
  due(storage, storage.now());
}

/** Of these, what nobody keeps is to be deleted, were it put there after it had been deleted before. */
export function abandonFiles(storage: Storage, files: readonly BucketFile[]): void {
  let abandoned = 0;
  for (const { key, owner } of files) {
    abandoned += storage.sql.exec(
      `INSERT INTO bucket_files (key, owner_kind, owner_id, state, delete_at) VALUES (?, ?, ?, 'due', ?)
       ON CONFLICT (key) DO UPDATE SET state = 'due', delete_at = excluded.delete_at
       WHERE state IN ('uploading', 'due') RETURNING key`,
      key,
      owner.kind,
      owner.id,
      storage.now(),
    ).length;
  }
  if (abandoned > 0) due(storage, storage.now());
}

/** @param ids JSON array; the caller takes the deletions next */
export function forgetFiles(storage: Storage, kind: FileOwner['kind'], ids: string): void {
  storage.sql.exec(
    `UPDATE bucket_files SET state = 'due', delete_at = ? WHERE owner_kind = ? AND owner_id IN (SELECT value FROM json_each(?))`,
    storage.now(),
    kind,
    ids,
  );
}

/** Takes what is due. Committed before a deletion begins, so that it is never forgotten. */
export function takeDeletions(storage: Storage): Deletion {
  const now = storage.now();
  const again_at = now + AGAIN_MS;
  const taken = rows<{ key: string }>(
    storage.sql,
    `UPDATE bucket_files SET state = 'due', delete_at = ? WHERE key IN (
       SELECT key FROM bucket_files WHERE delete_at <= ? ORDER BY delete_at LIMIT ?) RETURNING key`,
    again_at,
    now,
    BITE_KEYS,
  );
  const next = row<{ at: number | null }>(
    storage.sql,
    `SELECT min(delete_at) AS at FROM bucket_files WHERE delete_at IS NOT NULL`,
  );
  if (next?.at != null) due(storage, Math.max(next.at, now + PAUSE_MS));
  return { keys: taken.map(({ key }) => key), again_at };
}

/** The bucket has deleted them. What became due once more since then is left for its own deletion. */
export function confirmDeletions(storage: Storage, { keys, again_at }: Deletion): void {
  storage.sql.exec(
    `DELETE FROM bucket_files WHERE state = 'due' AND delete_at = ? AND key IN (SELECT value FROM json_each(?))`,
    again_at,
    JSON.stringify(keys),
  );
}

/** The payload of a job, where it lies in the bucket. */
export function payloadFile(
  sql: Sql,
  jobId: string,
): { key: string; sha256: string; suits_base: number } | null {
  return row(
    sql,
    `SELECT key, sha256, suits_base FROM bucket_files WHERE owner_kind = 'job' AND owner_id = ? AND state = 'payload'`,
    jobId,
  );
}

/** The key of a job's result, where it lies in the bucket. */
export function resultKey(sql: Sql, jobId: string): string | null {
  const found = row<{ key: string }>(
    sql,
    `SELECT key FROM bucket_files WHERE owner_kind = 'job' AND owner_id = ? AND state = 'result'`,
    jobId,
  );
  return found?.key ?? null;
}
