import type { Sql } from '../durable/ports.ts';

/** Every statement on the responses that engines keep. Nothing here decides. All times in epoch ms. */

/** A worker's engine keeps a response. */
export function saveResponse(
  sql: Sql,
  response: { id: string; worker_id: string; tenant: string | null },
  at: number,
): void {
  sql.exec(
    `INSERT OR REPLACE INTO responses (id, worker_id, tenant, at) VALUES (?, ?, ?, ?)`,
    response.id,
    response.worker_id,
    response.tenant,
    at,
  );
}

/** Which worker has it, and whose it is; null: unknown. */
export function findResponse(sql: Sql, id: string): { worker_id: string; tenant: string | null } | null {
  const [row] = sql.exec(`SELECT worker_id, tenant FROM responses WHERE id = ?`, id);
  return row ? { worker_id: String(row.worker_id), tenant: row.tenant as string | null } : null;
}

/** Forgets all but the newest. */
export function forgetResponses(sql: Sql, most: number): void {
  sql.exec(`DELETE FROM responses WHERE seq <= (SELECT max(seq) FROM responses) - ?`, most);
}
