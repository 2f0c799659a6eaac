import type { Sql } from '../durable/ports.ts';
import { bookCost } from './cost.ts';
import { isFinal, type LaunchRecord, launchIn } from './launch.ts';

/** Ended launches are kept so long, ms, and so many of them: the rule reads failures and start times off them. */
const KEPT_MS = 24 * 3_600_000;
const KEPT = 1000;

/** Every launch that may be alive and the newest ended ones, in memory as they are in their rows. */
export class Launches {
  readonly #sql: Sql;
  readonly #byId = new Map<string, LaunchRecord>();

  constructor(sql: Sql) {
    this.#sql = sql;
    this.reload();
  }

  /** After a commit that was rolled back. */
  reload(): void {
    this.#byId.clear();
    for (const { launch } of this.#sql.exec(`SELECT launch FROM launches`)) {
      const one = launchIn(String(launch));
      this.#byId.set(one.id, one);
    }
  }

  all(): LaunchRecord[] {
    return [...this.#byId.values()];
  }

  alive(): LaunchRecord[] {
    return this.all().filter((launch) => !isFinal(launch));
  }

  find(id: string): LaunchRecord | null {
    return this.#byId.get(id) ?? null;
  }

  named(name: string): LaunchRecord | null {
    return this.all().find((launch) => launch.name === name) ?? null;
  }

  /** What one that ends with this has cost is booked in the same commit. */
  save(launch: LaunchRecord): void {
    const before = this.#byId.get(launch.id);
    if (isFinal(launch) && !(before && isFinal(before))) bookCost(this.#sql, launch, launch.state_at);
    this.#byId.set(launch.id, launch);
    this.#sql.exec(
      `INSERT INTO launches (id, launch) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET launch = excluded.launch`,
      launch.id,
      JSON.stringify(launch),
    );
  }

  /** Forgets what ended long ago, and the longest ended beyond a number. */
  bound(now: number): void {
    const endedFirst = this.all()
      .filter(isFinal)
      .sort((one, other) => one.state_at - other.state_at);
    const surplus = endedFirst.length - KEPT;
    for (const [index, { id, state_at }] of endedFirst.entries()) {
      if (index >= surplus && now - state_at <= KEPT_MS) return;
      this.#byId.delete(id);
      this.#sql.exec(`DELETE FROM launches WHERE id = ?`, id);
    }
  }
}
