import type { OutputCursor } from '../rpc.ts';
import type { Sql } from './ports.ts';
import { row } from './rows.ts';

export function readOutputCursor(sql: Sql, jobId: string): OutputCursor {
  const found = row<{ output_fence: number | null; output_taken: number }>(
    sql,
    `SELECT output_fence, output_taken FROM jobs WHERE id = ?`,
    jobId,
  );
  return { fence_token: found?.output_fence ?? 0, taken: found?.output_taken ?? 0 };
}

/** Moves the cursor on from where it was read. @returns false if another call has moved it */
export function moveOutputCursor(sql: Sql, jobId: string, from: OutputCursor, to: OutputCursor): boolean {
  const moved = sql.exec(
    `UPDATE jobs SET output_fence = ?, output_taken = ?
     WHERE id = ? AND coalesce(output_fence, 0) = ? AND output_taken = ? RETURNING id`,
    to.fence_token,
    to.taken,
    jobId,
    from.fence_token,
    from.taken,
  );
  return moved.length > 0;
}
