import type { Sql } from '../../../durable/ports.ts';
import { doubling } from '../../../process/backoff.ts';

/** The pause after a post that a receiver did not take, ms; it doubles with each such post in a row. */
const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 10 * 60_000;

/** How a receiver has taken what was sent to it. Times are epoch ms; null: never. */
export interface ReceiverState {
  /** The posts in a row that it did not take. */
  failures: number;
  /** The time before which the receiver is not tried again, epoch ms. */
  retry_at: number;
  last_success_at: number | null;
  last_failure_at: number | null;
  /** Why it did not take the last of them, a clause: "it answered 500". */
  last_failure: string | null;
}

const NEW: ReceiverState = {
  failures: 0,
  retry_at: 0,
  last_success_at: null,
  last_failure_at: null,
  last_failure: null,
};

/** The states of all receivers, each a row, so that a restart does not press a receiver that is down. */
export class ReceiverStates {
  readonly #sql: Sql;
  readonly #states: Map<string, ReceiverState>;

  /** @param receivers the names of all receivers: the states of others are forgotten */
  constructor(sql: Sql, receivers: readonly string[]) {
    this.#sql = sql;
    const rows = [...sql.exec(`SELECT name, state FROM alert_receivers`)];
    this.#states = new Map(rows.map(({ name, state }) => [String(name), JSON.parse(String(state))]));
    for (const name of this.#states.keys()) {
      if (receivers.includes(name)) continue;
      this.#states.delete(name);
      sql.exec(`DELETE FROM alert_receivers WHERE name = ?`, name);
    }
  }

  of(name: string): Readonly<ReceiverState> {
    return this.#states.get(name) ?? NEW;
  }

  /** Notes that a receiver has taken a post. */
  taken(name: string, now: number): void {
    this.#keep(name, { ...this.of(name), failures: 0, retry_at: 0, last_success_at: now });
  }

  /** Notes that a receiver did not take a post. @returns the pause before it is tried again, ms */
  failed(name: string, why: string, now: number): number {
    const failures = this.of(name).failures + 1;
    const pauseMs = doubling(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, failures);
    const news = { failures, retry_at: now + pauseMs, last_failure_at: now, last_failure: why };
    this.#keep(name, { ...this.of(name), ...news });
    return pauseMs;
  }

  #keep(name: string, state: ReceiverState): void {
    this.#states.set(name, state);
    this.#sql.exec(
      `INSERT INTO alert_receivers (name, state) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET state = excluded.state`,
      name,
      JSON.stringify(state),
    );
  }
}
