import type { Row, Sql, SqlValue } from '../../durable/ports.ts';
import type { RequestRecord } from '../../protocol/index.ts';
import { REQUEST_FILTERS, type RequestsWanted } from '../rpc.ts';

/**
 * Every statement on requests that have ended, numbered as the queue reported them. Nothing here decides. Times in
 * epoch ms.
 */

const COLUMNS = [
  'id',
  'request_id',
  'kind',
  'submitted_at',
  'ended_at',
  'config_id',
  'model',
  'route',
  'tenant',
  'token_name',
  'worker_id',
  'attempts',
  'outcome',
  'error_code',
  'error',
  'tokens_in',
  'tokens_out',
  'cached_tokens',
  'wait_ms',
  'first_token_ms',
  'total_ms',
  'is_slow',
  'stands_for',
] as const satisfies (keyof RequestRecord)[];

const INSERT = `INSERT OR IGNORE INTO requests (${COLUMNS.join(', ')}, is_notable)
  VALUES (${COLUMNS.map(() => '?').join(', ')}, ?) RETURNING seq`;

/** Stores a request. @returns whether it was not there yet */
export function insertRequest(sql: Sql, record: RequestRecord, isNotable: boolean): boolean {
  const values = COLUMNS.map((name) => sqlValueOf(record[name]));
  return sql.exec(INSERT, ...values, isNotable ? 1 : 0).length > 0;
}

/** Finds the last of the `most` requests before a number, beyond which a list does not look; null: there are fewer. */
export function lastOf(sql: Sql, before: number, most: number): { seq: number; ended_at: number } | null {
  const [row] = sql.exec(
    `SELECT seq, ended_at FROM requests WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?`,
    before,
    most - 1,
  );
  return row ? { seq: Number(row.seq), ended_at: Number(row.ended_at) } : null;
}

/** Lists the requests between two numbers, the first included, that the filter fits; newest first. */
export function requestsBetween(
  sql: Sql,
  from: number,
  before: number,
  wanted: RequestsWanted,
  limit: number,
): { seq: number; record: RequestRecord }[] {
  const conditions = ['seq >= ?', 'seq < ?'];
  const bindings: SqlValue[] = [from, before];
  const add = (condition: string, ...values: SqlValue[]) => {
    conditions.push(condition);
    bindings.push(...values);
  };
  const { filter, id, text, since, until } = wanted;
  for (const name of REQUEST_FILTERS) if (filter[name] !== null) add(`${name} = ?`, filter[name]);
  if (filter.is_slow !== null) add('is_slow = ?', filter.is_slow ? 1 : 0);
  if (since !== null) add('ended_at >= ?', since);
  if (until !== null) add('ended_at < ?', until);
  if (text !== null) add('instr(lower(error), lower(?)) > 0', text);
  if (id !== null) {
    // No character of an id sorts after U+10FFFF.
    const [least, most] = [id, `${id}\u{10ffff}`];
    add('((id >= ? AND id < ?) OR (request_id >= ? AND request_id < ?))', least, most, least, most);
  }
  return sql
    .exec(
      `SELECT seq, ${COLUMNS.join(', ')} FROM requests WHERE ${conditions.join(' AND ')} ORDER BY seq DESC LIMIT ?`,
      ...bindings,
      limit,
    )
    .map((row) => ({ seq: Number(row.seq), record: recordOf(row) }));
}

/** Forgets the oldest requests of a kind beyond so many. */
export function boundRequests(sql: Sql, isNotable: boolean, most: number): void {
  sql.exec(
    `DELETE FROM requests WHERE is_notable = ?1 AND seq <=
       (SELECT seq FROM requests WHERE is_notable = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)`,
    isNotable ? 1 : 0,
    most,
  );
}

/**
 * Forgets requests that ended before a time, at most so many of the oldest. @returns when the oldest that is left ended
 */
export function forgetRequests(sql: Sql, before: number, most: number): number | null {
  sql.exec(
    `DELETE FROM requests WHERE seq IN (SELECT seq FROM requests ORDER BY seq LIMIT ?) AND ended_at < ?`,
    most,
    before,
  );
  const [oldest] = sql.exec(`SELECT ended_at FROM requests ORDER BY seq LIMIT 1`);
  return oldest ? Number(oldest.ended_at) : null;
}

function sqlValueOf(value: RequestRecord[keyof RequestRecord]): SqlValue {
  return typeof value === 'boolean' ? Number(value) : value;
}

function recordOf(row: Row): RequestRecord {
  const { seq, ...rest } = row;
  return { ...rest, is_slow: row.is_slow === 1 } as unknown as RequestRecord;
}
