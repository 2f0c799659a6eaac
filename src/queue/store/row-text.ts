import { limits } from '../../protocol/index.ts';
import type { Sql } from './ports.ts';

/** Payloads and results that fit the row of their job stay in it; longer ones go into `long_texts` in pieces. */
type Kind = 'payload' | 'result';

/** Returns what goes into the row itself: the text, or null when it was stored in pieces. */
export function storeText(sql: Sql, jobId: string, kind: Kind, text: string): string | null {
  if (text.length <= limits.JOB_ROW_TEXT_CHARACTERS) return text;
  for (const [part, piece] of pieces(text, limits.ROW_TEXT_CHARACTERS).entries()) {
    sql.exec(
      `INSERT OR REPLACE INTO long_texts (job_id, kind, part, text) VALUES (?, ?, ?, ?)`,
      jobId,
      kind,
      part,
      piece,
    );
  }
  return null;
}

const READ: Record<Kind, string> = {
  payload: `SELECT payload AS text FROM jobs WHERE id = ?`,
  result: `SELECT result AS text FROM jobs WHERE id = ?`,
};

/** The stored text, from the row or its pieces; null when there is none. */
export function readText(sql: Sql, jobId: string, kind: Kind): string | null {
  const inline = sql.exec(READ[kind], jobId)[0]?.text;
  if (typeof inline === 'string') return inline;
  const parts = sql.exec(
    `SELECT text FROM long_texts WHERE job_id = ? AND kind = ? ORDER BY part`,
    jobId,
    kind,
  );
  return parts.length === 0 ? null : parts.map((row) => row.text).join('');
}

/** Cuts text without parting a surrogate pair, which SQLite's UTF-8 could not store. */
export function pieces(text: string, size: number): string[] {
  const cut: string[] = [];
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + size, text.length);
    const last = text.charCodeAt(to - 1);
    if (to < text.length && last >= 0xd800 && last <= 0xdbff) to -= 1;
    cut.push(text.slice(from, to));
    from = to;
  }
  return cut;
}

/** Pieces of long texts that a job has. */
export function countLongTexts(sql: Sql, jobId: string): number {
  return Number(sql.exec(`SELECT count(*) AS n FROM long_texts WHERE job_id = ?`, jobId)[0]?.n);
}

/** @param jobIds a JSON array */
export function forgetLongTexts(sql: Sql, jobIds: string): void {
  sql.exec(`DELETE FROM long_texts WHERE job_id IN (SELECT value FROM json_each(?))`, jobIds);
}
