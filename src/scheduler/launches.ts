import type { Sql } from '../durable/ports.ts';
import { hoursWithin, isFinal, type Launch, type LaunchRecord, storedLaunch } from './launch.ts';
import type { MachineMap } from './machines.ts';
import type { SpentOnDay } from './rpc.ts';
import { bookSpot } from './spot-book.ts';

/**
 * Ended launches are stored for this many ms, and at most KEPT of them: the rule computes failures and start times from
 * them.
 */
const KEPT_MS = 24 * 3_600_000;
const KEPT = 1000;

const NONE_DISPLACED = { moved: 0, repeated: 0 };

/**
 * Stores the launches and orphans that may be alive, and the newest ended launches, in memory as in their rows. The map
 * of machines has each of them under its name.
 */
export class Launches {
  readonly #sql: Sql;
  readonly #machines: MachineMap;
  readonly #byId = new Map<string, LaunchRecord>();

  constructor(sql: Sql, machines: MachineMap) {
    this.#sql = sql;
    this.#machines = machines;
    this.reload();
  }

  /** Reads all rows again, after a commit was rolled back. */
  reload(): void {
    for (const launch of this.#byId.values()) this.#machines.detach(launch);
    this.#byId.clear();
    for (const { launch } of this.#sql.exec(`SELECT launch FROM launches`)) {
      const one = storedLaunch(String(launch));
      this.#byId.set(one.id, one);
      this.#machines.attach(one);
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
    if (launch.is_orphan && isFinal(launch)) return this.#remove(launch);
    const before = this.#byId.get(launch.id);
    if (isFinal(launch) && !(before && isFinal(before))) {
      bookCost(this.#sql, launch, launch.state_at);
      const { displaced = NONE_DISPLACED } = this.#machines.byName.get(launch.name) ?? {};
      bookSpot(this.#sql, launch, displaced, launch.state_at);
    }
    this.#byId.set(launch.id, launch);
    this.#machines.attach(launch);
    this.#sql.exec(
      `INSERT INTO launches (id, launch) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET launch = excluded.launch`,
      launch.id,
      JSON.stringify(launch),
    );
  }

  /** Deletes launches that ended long ago, and those beyond KEPT that ended longest ago. */
  bound(now: number): void {
    const endedFirst = this.all()
      .filter(isFinal)
      .sort((one, other) => one.state_at - other.state_at);
    const surplus = endedFirst.length - KEPT;
    for (const [index, launch] of endedFirst.entries()) {
      if (index >= surplus && now - launch.state_at <= KEPT_MS) return;
      this.#remove(launch);
    }
  }

  #remove(launch: LaunchRecord): void {
    this.#byId.delete(launch.id);
    this.#machines.detach(launch);
    this.#sql.exec(`DELETE FROM launches WHERE id = ?`, launch.id);
  }
}

const DAY_MS = 24 * 3_600_000;
/** The cost of launches is stored for this many days, as usage is: a month's bill is made after the month. */
const KEPT_DAYS = 400;

/** Returns the midnight UTC before a time, epoch ms. */
function dayOf(at: number): number {
  return at - (at % DAY_MS);
}

/**
 * Returns the cost of a launch within a span of time, US dollars. The launch counts by the provider's own times if it
 * reports them, else from when the provider accepted it.
 */
function costWithin(launch: Launch, from: number, to: number): number {
  return hoursWithin(launch, from, to) * launch.price_per_hour;
}

/** Returns the cost of a launch so far, or in all once it has ended, US dollars. */
export function costOf(launch: Launch, now: number): number {
  return costWithin(launch, 0, now);
}

/** Books the cost of a launch that has just ended on each day that it ran. */
function bookCost(sql: Sql, launch: Launch, now: number): void {
  const since = launch.started_at ?? launch.accepted_at;
  if (since === null) return;
  for (let day = dayOf(Math.max(since, now - KEPT_DAYS * DAY_MS)); day <= now; day += DAY_MS) {
    const dollars = costWithin(launch, day, Math.min(day + DAY_MS, now));
    if (dollars === 0) continue;
    sql.exec(
      `INSERT INTO launch_spend (day, config_id, dollars) VALUES (?, ?, ?)
       ON CONFLICT (day, config_id) DO UPDATE SET dollars = dollars + excluded.dollars`,
      day,
      launch.config_id,
      dollars,
    );
  }
  sql.exec(`DELETE FROM launch_spend WHERE day < ?`, now - KEPT_DAYS * DAY_MS);
}

/**
 * Returns the cost of each pool by UTC day, since the day of a time, including launches that still run. A pool that
 * cost nothing on a day is left out; a machine without a known price costs nothing here.
 */
export function spentByDay(sql: Sql, alive: readonly Launch[], from: number, now: number): SpentOnDay[] {
  const spent = new Map<string, SpentOnDay>();
  const add = (day: number, config_id: string, dollars: number) => {
    if (dollars === 0) return;
    const key = `${day} ${config_id}`;
    const before = spent.get(key)?.dollars ?? 0;
    spent.set(key, { day: day / 1000, config_id, dollars: before + dollars });
  };
  for (const row of sql.exec(`SELECT day, config_id, dollars FROM launch_spend WHERE day >= ?`, dayOf(from)))
    add(Number(row.day), String(row.config_id), Number(row.dollars));
  for (const launch of alive) {
    const since = launch.started_at ?? launch.accepted_at ?? now;
    for (let day = dayOf(Math.max(since, from)); day <= now; day += DAY_MS)
      add(day, launch.config_id, costWithin(launch, day, Math.min(day + DAY_MS, now)));
  }
  return [...spent.values()];
}

/** Returns each pool's cost since midnight UTC, US dollars, including launches that still run. */
export function spentToday(sql: Sql, alive: readonly Launch[], now: number): Map<string, number> {
  const today = spentByDay(sql, alive, now, now).filter(({ day }) => day === dayOf(now) / 1000);
  return new Map(today.map(({ config_id, dollars }) => [config_id, dollars]));
}
