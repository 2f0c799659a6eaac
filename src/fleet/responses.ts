import type { Sql } from '../durable/ports.ts';
import { bounds } from '../protocol/index.ts';
import type { ResponseOwner } from './rpc.ts';

/** Remembers which worker's engine keeps which response. */
export class Responses {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Adds a response; the oldest beyond a number are forgotten. @param at epoch ms */
  keep(id: string, workerId: string, tenant: string | null, at: number): void {
    const replace = `INSERT OR REPLACE INTO responses (id, worker_id, tenant, at) VALUES (?, ?, ?, ?)`;
    this.#sql.exec(replace, id, workerId, tenant, at);
    const oldest = `DELETE FROM responses WHERE seq <= (SELECT max(seq) FROM responses) - ?`;
    this.#sql.exec(oldest, bounds.KNOWN_RESPONSES);
  }

  /** Returns whose worker's engine keeps a response. @param viewer null sees all */
  ownerOf(id: string, viewer: string | null): ResponseOwner {
    const [row] = this.#sql.exec(`SELECT worker_id, tenant FROM responses WHERE id = ?`, id);
    if (!row) return null;
    return viewer === null || viewer === row.tenant ? { worker_id: String(row.worker_id) } : 'foreign';
  }
}
