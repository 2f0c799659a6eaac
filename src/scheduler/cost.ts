import type { Sql } from '../durable/ports.ts';
import type { Launch } from './launch.ts';
import type { SpentOnDay } from './rpc.ts';

const DAY_MS = 24 * 3_600_000;
const HOUR_MS = 3_600_000;
/** The cost of this many days is kept. */
const KEPT_DAYS = 31;

/** Returns the midnight UTC before a time, epoch ms. */
function dayOf(at: number): number {
  return at - (at % DAY_MS);
}

/**
 * Returns the cost of a launch within a span of time, US dollars. The launch runs by the provider's own times where it
 * reports them, else from when the provider accepted it.
 */
function costWithin(launch: Launch, from: number, to: number): number {
  const since = launch.started_at ?? launch.accepted_at;
  if (since === null) return 0;
  const begin = Math.max(since, from);
  const end = Math.min(launch.ended_at ?? to, to);
  return (Math.max(0, end - begin) / HOUR_MS) * launch.price_per_hour;
}

/** Returns the cost of a launch so far, or in all once it has ended, US dollars. */
export function costOf(launch: Launch, now: number): number {
  return costWithin(launch, 0, now);
}

/** Books the cost of a launch that has just ended on each day that it ran. */
export function bookCost(sql: Sql, launch: Launch, now: number): void {
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
 * Returns the cost of each pool by day of UTC, since the day of a time, launches that still run included. A pool that
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

/** Returns the cost since midnight UTC by pool, US dollars, launches that still run included. */
export function spentToday(sql: Sql, alive: readonly Launch[], now: number): Map<string, number> {
  const today = spentByDay(sql, alive, now, now).filter(({ day }) => day === dayOf(now) / 1000);
  return new Map(today.map(({ config_id, dollars }) => [config_id, dollars]));
}
