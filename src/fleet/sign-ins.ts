import type { Sql } from '../durable/ports.ts';
import { bounds } from '../protocol/index.ts';

/** A browser that showed a token and has a cookie for it. The row holds neither of them. */
export interface SignInRow {
  /** The SHA-256 of what the cookie holds, lower-case hex. */
  id_sha256: string;
  /** The SHA-256 of the token, lower-case hex: once the token is no longer configured, its sessions end. */
  token_sha256: string;
  /** When the sign-in expires, epoch ms. */
  expires_at: number;
}

/** Stores who is signed in to the page. */
export class SignIns {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * Adds a sign-in. Beyond a number with one token, those that expire first are forgotten, as are all that have
   * expired.
   */
  add({ id_sha256, token_sha256, expires_at }: SignInRow, now: number): void {
    this.#sql.exec(
      `INSERT INTO sign_ins (id_sha256, token_sha256, expires_at) VALUES (?, ?, ?)`,
      id_sha256,
      token_sha256,
      expires_at,
    );
    this.#sql.exec(
      `DELETE FROM sign_ins WHERE expires_at <= ?1
         OR id_sha256 IN (
           SELECT id_sha256 FROM sign_ins WHERE token_sha256 = ?2 ORDER BY expires_at DESC LIMIT -1 OFFSET ?3
         )`,
      now,
      token_sha256,
      bounds.SIGN_INS_OF_TOKEN,
    );
  }

  /** Finds a sign-in; null: there is none, or it has ended. */
  find(id_sha256: string, now: number): SignInRow | null {
    const [row] = this.#sql.exec(
      `SELECT token_sha256, expires_at FROM sign_ins WHERE id_sha256 = ? AND expires_at > ?`,
      id_sha256,
      now,
    );
    if (!row) return null;
    return { id_sha256, token_sha256: String(row.token_sha256), expires_at: Number(row.expires_at) };
  }

  remove(id_sha256: string): void {
    this.#sql.exec(`DELETE FROM sign_ins WHERE id_sha256 = ?`, id_sha256);
  }
}
