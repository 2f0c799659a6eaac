import {
  HOURS_KEPT_DAYS,
  USAGE_AMOUNTS,
  USAGE_KEYS,
  type UsageAmounts,
  type UsageKey,
  type UsageSum,
  type UsageWanted,
} from '../rpc.ts';
import type { Sql, SqlValue } from './ports.ts';
import { row, rows } from './ports.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;
/** Days are kept for more than a year, so that a month can be compared with that of the year before. */
const DAYS_KEPT = 400;
/** The most rows of counted attempts: at one write a second, a quarter of an hour, while a worker repeats at once. */
const WRITES_KEPT = 900;

const COLUMNS = [...USAGE_KEYS, ...USAGE_AMOUNTS].join(', ');
const ADD = `INSERT INTO usage (span, start, ${COLUMNS})
  VALUES ('hour', ?, ${[...USAGE_KEYS, ...USAGE_AMOUNTS].map(() => '?').join(', ')})
  ON CONFLICT DO UPDATE SET ${USAGE_AMOUNTS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`;

/** The amounts that are counted at one time, and whom they are counted for. */
export interface UsageEntry {
  key: UsageKey;
  amounts: Partial<UsageAmounts>;
  /** The job that ends with this entry, if one does; its limits have counted its tokens as they came. */
  job_id?: string;
}

/** Adds usage to its hour. @param atMs epoch ms */
export function addUsage(sql: Sql, atMs: number, key: UsageKey, amounts: UsageAmounts): void {
  sql.exec(
    ADD,
    hourOf(atMs),
    ...USAGE_KEYS.map((name) => key[name]),
    ...USAGE_AMOUNTS.map((name) => amounts[name]),
  );
}

/** Returns the epoch s at which the hour of this time begins. @param atMs epoch ms */
export function hourOf(atMs: number): number {
  const at = Math.floor(atMs / 1000);
  return at - (at % HOUR);
}

/** Turns hours that are long ago into days, and forgets days that are long ago. */
export function rollUpUsage(sql: Sql, nowMs: number): void {
  const today = Math.floor(nowMs / 1000 / DAY) * DAY;
  const before = today - HOURS_KEPT_DAYS * DAY;
  const keys = USAGE_KEYS.join(', ');
  sql.exec(
    `INSERT INTO usage (span, start, ${COLUMNS})
       SELECT 'day', start - start % ${DAY}, ${keys}, ${USAGE_AMOUNTS.map((name) => `sum(${name})`).join(', ')}
       FROM usage WHERE span = 'hour' AND start < ? GROUP BY start - start % ${DAY}, ${keys}
     ON CONFLICT DO UPDATE SET ${USAGE_AMOUNTS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`,
    before,
  );
  sql.exec(`DELETE FROM usage WHERE span = 'hour' AND start < ?`, before);
  sql.exec(`DELETE FROM usage WHERE span = 'day' AND start < ?`, today - DAYS_KEPT * DAY);
}

/** Sums usage by time and keys. @param most the most sums to return @returns sums in the order of time and keys */
export function sumUsage(
  sql: Sql,
  { from, to, width, groupBy, filter, skip = 0 }: UsageWanted,
  most: number,
): UsageSum[] {
  const given: SqlValue[] = [from, to];
  const where = ['start >= ?', 'start < ?'];
  for (const [name, values] of Object.entries(filter)) {
    where.push(`${name} IN (SELECT value FROM json_each(?))`);
    given.push(JSON.stringify(values));
  }
  const keys = ['start', ...groupBy].join(', ');
  return rows<UsageSum>(
    sql,
    `SELECT start - start % ${width} AS start, ${[...groupBy, ...USAGE_AMOUNTS.map((name) => `sum(${name}) AS ${name}`)].join(', ')}
     FROM usage WHERE ${where.join(' AND ')} GROUP BY ${keys.replace('start', '1')} ORDER BY ${keys.replace('start', '1')} LIMIT ? OFFSET ?`,
    ...given,
    most,
    skip,
  );
}

/** A sum of usage as budgets look at it. */
export interface Used {
  model: string;
  config_id: string;
  tokens: number;
  nanodollars: number;
}

/** Returns what was counted for a token, or for a tenant. @param from epoch ms, where a day begins */
export function usedBy(
  sql: Sql,
  whose: Partial<Pick<UsageKey, 'token_name' | 'tenant'>>,
  from: number,
): Used[] {
  const [[key, name]] = Object.entries(whose) as [[string, string]];
  return rows(
    sql,
    `SELECT model, config_id, sum(input + output) AS tokens, sum(nanodollars) AS nanodollars FROM usage
     WHERE start >= ? AND ${key} = ? GROUP BY model, config_id`,
    from / 1000,
    name,
  );
}

/** Notes attempts as counted. @param fences at least one */
export function insertCounted(sql: Sql, fences: readonly number[]): void {
  const first = fences.reduce((least, fence) => Math.min(least, fence));
  const last = fences.reduce((most, fence) => Math.max(most, fence));
  const inserted = row<{ n: number }>(
    sql,
    `INSERT INTO counted_attempts (first_fence, last_fence, fences) VALUES (?, ?, ?) RETURNING n`,
    first,
    last,
    `,${fences.join(',')},`,
  );
  sql.exec(`DELETE FROM counted_attempts WHERE n <= ?`, inserted!.n - WRITES_KEPT);
}

/** Whether the attempt was counted, or is too old to be known: what may have been counted is not counted again. */
export function wasCounted(sql: Sql, fence: number): boolean {
  const found = row(
    sql,
    `SELECT 1 FROM counted_attempts WHERE first_fence <= ?1 AND last_fence >= ?1 AND instr(fences, ?2) > 0`,
    fence,
    `,${fence},`,
  );
  if (found !== null) return true;
  const kept = row<{ writes: number; first: number | null }>(
    sql,
    `SELECT count(*) AS writes, min(first_fence) AS first FROM counted_attempts`,
  )!;
  return kept.writes >= WRITES_KEPT && fence < (kept.first ?? 0);
}
