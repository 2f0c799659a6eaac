import type { Sql } from '../store/ports.ts';
import { row, rows } from '../store/rows.ts';

/** Statements on posts of settlements that no receiver has taken yet. */

/** One post; its id is the same however often it is tried. */
export interface Webhook {
  id: string;
  job_id: string;
  /** The host of the post's address, port included. */
  host: string;
  url: string;
  /** The number of tries that failed. */
  tries: number;
}

export function insertWebhook(sql: Sql, webhook: Omit<Webhook, 'tries'>, dueAt: number): void {
  sql.exec(
    `INSERT INTO webhooks (id, job_id, host, url, due_at) VALUES (?, ?, ?, ?, ?)`,
    webhook.id,
    webhook.job_id,
    webhook.host,
    webhook.url,
    dueAt,
  );
}

export function countWebhooks(sql: Sql): number {
  return row<{ n: number }>(sql, `SELECT count(*) AS n FROM webhooks`)!.n;
}

/** Returns the next host in alphabetical order, and when its first post is due, epoch ms; null if there is none. */
export function hostAfter(sql: Sql, host: string): { host: string; due_at: number } | null {
  return row(sql, `SELECT host, due_at FROM webhooks WHERE host > ? ORDER BY host, due_at LIMIT 1`, host);
}

/** Takes posts of a host that are due. They are due again at `againAt` unless their outcome is recorded before. */
export function takeWebhooks(
  sql: Sql,
  { host, now, againAt, limit }: { host: string; now: number; againAt: number; limit: number },
): Webhook[] {
  return rows<Webhook>(
    sql,
    `UPDATE webhooks SET due_at = ? WHERE id IN (
       SELECT id FROM webhooks WHERE host = ? AND due_at <= ? ORDER BY due_at LIMIT ?)
     RETURNING id, job_id, host, url, tries`,
    againAt,
    host,
    now,
    limit,
  );
}

export function postponeWebhook(sql: Sql, id: string, tries: number, dueAt: number): void {
  sql.exec(`UPDATE webhooks SET tries = ?, due_at = ? WHERE id = ?`, tries, dueAt, id);
}

/** Deletes a post. @returns whether it was there */
export function deleteWebhook(sql: Sql, id: string): boolean {
  return rows(sql, `DELETE FROM webhooks WHERE id = ? RETURNING id`, id).length > 0;
}
