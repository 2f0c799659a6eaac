import { limits } from '../../protocol/index.ts';
import { dropUploaded, keepResult } from './blob-table.ts';
import type { Sql, Storage } from './ports.ts';
import { pieces } from './row-text.ts';
import { rows } from './rows.ts';

/** Every statement on results that were put beside their job and not announced yet; those in the bucket too. */

export function insertUpload(sql: Sql, jobId: string, fenceToken: number, text: string): void {
  for (const [part, piece] of pieces(text, limits.ROW_TEXT_CHARACTERS).entries()) {
    sql.exec(
      `INSERT INTO uploads (job_id, part, fence_token, text) VALUES (?, ?, ?, ?)`,
      jobId,
      part,
      fenceToken,
      piece,
    );
  }
}

/** Makes the upload of this attempt the job's result; false: there is none. */
export function adoptUpload(sql: Sql, jobId: string, fenceToken: number): boolean {
  const moved = sql.exec(
    `INSERT INTO long_texts (job_id, kind, part, text)
     SELECT job_id, 'result', part, text FROM uploads WHERE job_id = ? AND fence_token = ? RETURNING part`,
    jobId,
    fenceToken,
  );
  return moved.length > 0 || keepResult(sql, jobId, fenceToken);
}

/** Ids of the jobs that have such results. */
export function uploadedJobs(sql: Sql): string[] {
  const found = rows<{ id: string }>(
    sql,
    `SELECT DISTINCT job_id AS id FROM uploads
     UNION SELECT owner_id FROM bucket_files WHERE owner_kind = 'job' AND state = 'upload'`,
  );
  return found.map(({ id }) => id);
}

export function dropUploads(storage: Storage, jobId: string): void {
  storage.sql.exec(`DELETE FROM uploads WHERE job_id = ?`, jobId);
  dropUploaded(storage, jobId);
}
