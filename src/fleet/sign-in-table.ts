import type { Sql } from '../durable/ports.ts';

/** Statements on who is signed in to the page. Nothing here decides. All times in epoch ms. */

/** A browser that showed a token, and has a cookie for it. Neither of the two is kept. */
export interface SignInRow {
  /** Lower-case hex of the SHA-256 of what the cookie holds. */
  id_sha256: string;
  /** The same of the token: where it is configured no more, nobody is signed in with it. */
  token_sha256: string;
  expires_at: number;
}

/** @param most who are signed in with one token; beyond it those that expire first are forgotten, as all that expired are */
export function saveSignIn(
  sql: Sql,
  { id_sha256, token_sha256, expires_at }: SignInRow,
  now: number,
  most: number,
): void {
  sql.exec(
    `INSERT INTO sign_ins (id_sha256, token_sha256, expires_at) VALUES (?, ?, ?)`,
    id_sha256,
    token_sha256,
    expires_at,
  );
  sql.exec(
    `DELETE FROM sign_ins WHERE expires_at <= ?1
       OR id_sha256 IN (
         SELECT id_sha256 FROM sign_ins WHERE token_sha256 = ?2 ORDER BY expires_at DESC LIMIT -1 OFFSET ?3
       )`,
    now,
    token_sha256,
    most,
  );
}

export function findSignIn(sql: Sql, id_sha256: string, now: number): SignInRow | null {
  const [row] = sql.exec(
    `SELECT token_sha256, expires_at FROM sign_ins WHERE id_sha256 = ? AND expires_at > ?`,
    id_sha256,
    now,
  );
  if (!row) return null;
  return { id_sha256, token_sha256: String(row.token_sha256), expires_at: Number(row.expires_at) };
}

export function removeSignIn(sql: Sql, id_sha256: string): void {
  sql.exec(`DELETE FROM sign_ins WHERE id_sha256 = ?`, id_sha256);
}
