import type { Sql } from '../durable/ports.ts';
import { bookCost } from './cost.ts';
import { isFinal, type LaunchRecord } from './launch.ts';

/**
 * Ended launches are kept for this many ms, and at most KEPT of them: the rule computes failures and start times from
 * them.
 */
const KEPT_MS = 24 * 3_600_000;
const KEPT = 1000;

/** The launches and orphans that may be alive, and the newest ended launches, in memory as in their rows. */
export class Launches {
  readonly #sql: Sql;
  readonly #byId = new Map<string, LaunchRecord>();

  constructor(sql: Sql) {
    this.#sql = sql;
    this.reload();
  }

  /** Reads all rows again, after a commit was rolled back. */
  reload(): void {
    this.#byId.clear();
    for (const { launch } of this.#sql.exec(`SELECT launch FROM launches`)) {
      const one = JSON.parse(String(launch)) as LaunchRecord;
      this.#byId.set(one.id, one);
    }
  }

  all(): LaunchRecord[] {
    return [...this.#byId.values()];
  }

  /** Returns every launch without the orphans. */
  launched(): LaunchRecord[] {
    return this.all().filter(({ is_orphan }) => !is_orphan);
  }

  /** Returns the launches that have a machine, or may get one. */
  alive(): LaunchRecord[] {
    return this.launched().filter((launch) => !isFinal(launch));
  }

  /** Returns every launch and orphan that may run under one of our names. */
  machines(): LaunchRecord[] {
    return this.all().filter((launch) => !isFinal(launch));
  }

  find(id: string): LaunchRecord | null {
    return this.#byId.get(id) ?? null;
  }

  /**
   * Writes a launch. If the launch ends with this, its cost is booked in the same commit. The row of an orphan that is
   * gone is deleted.
   */
  save(launch: LaunchRecord): void {
    if (launch.is_orphan && isFinal(launch)) return this.#remove(launch.id);
    const before = this.#byId.get(launch.id);
    if (isFinal(launch) && !(before && isFinal(before))) bookCost(this.#sql, launch, launch.state_at);
    this.#byId.set(launch.id, launch);
    this.#sql.exec(
      `INSERT INTO launches (id, launch) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET launch = excluded.launch`,
      launch.id,
      JSON.stringify(launch),
    );
  }

  /** Deletes launches that ended long ago, and the longest ended ones beyond KEPT. */
  bound(now: number): void {
    const endedFirst = this.all()
      .filter(isFinal)
      .sort((one, other) => one.state_at - other.state_at);
    const surplus = endedFirst.length - KEPT;
    for (const [index, { id, state_at }] of endedFirst.entries()) {
      if (index >= surplus && now - state_at <= KEPT_MS) return;
      this.#remove(id);
    }
  }

  #remove(id: string): void {
    this.#byId.delete(id);
    this.#sql.exec(`DELETE FROM launches WHERE id = ?`, id);
  }
}
