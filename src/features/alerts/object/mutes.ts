import type { Sql } from '../../../durable/ports.ts';
import type { Problem } from '../../../fleet/view/scaling-attention.ts';
import { type AlertMute, type MuteRequest, matchesPattern } from '../../../protocol/index.ts';

/** The most mutes at a time. */
const MOST_MUTES = 100;

/** The mutes in force. Each is a row, so that a restart ends none early. */
export class Mutes {
  readonly #sql: Sql;
  readonly #mutes: Map<string, AlertMute>;

  constructor(sql: Sql) {
    this.#sql = sql;
    const rows = [...sql.exec(`SELECT id, mute FROM alert_mutes`)];
    this.#mutes = new Map(rows.map(({ id, mute }) => [String(id), JSON.parse(String(mute)) as AlertMute]));
  }

  /** Lists the mutes that have not ended, the one that ends first in front. */
  list(now: number): AlertMute[] {
    return [...this.#mutes.values()]
      .filter(({ until }) => until > now)
      .sort((a, b) => a.until - b.until || a.made_at - b.made_at);
  }

  /** Makes a mute. @param by name of the token; null: none was required @returns null: there are too many */
  make(request: MuteRequest, by: string | null, id: string, now: number): AlertMute | null {
    if (this.list(now).length >= MOST_MUTES) return null;
    const { pool = null, kind = null, why = null } = request;
    const mute = { id, pool, kind, until: now + request.for * 1000, why: why || null, by, made_at: now };
    this.#sql.exec(`INSERT INTO alert_mutes (id, mute) VALUES (?, ?)`, id, JSON.stringify(mute));
    this.#mutes.set(id, mute);
    return mute;
  }

  /** Ends a mute early. @returns the mute as it was, or null if none of that id is in force */
  end(id: string, now: number): AlertMute | null {
    const mute = this.#mutes.get(id);
    this.#forget(id);
    return mute && mute.until > now ? mute : null;
  }

  /** Returns when the last mute of a problem ends, epoch ms, or null if none concerns it. */
  until({ config_id, code }: Problem, now: number): number | null {
    const ends = this.list(now)
      .filter(({ pool, kind }) => isOfPool(config_id, pool) && (kind === null || kind === code))
      .map(({ until }) => until);
    return ends.length === 0 ? null : Math.max(...ends);
  }

  /** Deletes the mutes that have ended. */
  bound(now: number): void {
    for (const { id, until } of this.#mutes.values()) if (until <= now) this.#forget(id);
  }

  #forget(id: string): void {
    if (!this.#mutes.has(id)) return;
    this.#sql.exec(`DELETE FROM alert_mutes WHERE id = ?`, id);
    this.#mutes.delete(id);
  }
}

function isOfPool(configId: string | null, pool: string | null): boolean {
  return pool === null || (configId !== null && matchesPattern(pool, configId));
}
