import type { Row, Sql, SqlValue } from '../durable/ports.ts';
import { isNotable, type RequestRecord } from '../protocol/index.ts';
import { REQUEST_FILTERS, type RequestPage, type RequestsWanted } from './rpc.ts';

/**
 * The most requests stored of each kind. The kinds are requests that went well, and requests that failed or were slow;
 * neither pushes out the other.
 */
const MOST_OF_A_KIND = 50_000;
/** The number of new requests after which the stored ones are bounded. */
const BOUNDED_EVERY = 1000;
/** The most requests that one look passes over, so that a filter that few of many fit does not hold up the fleet. */
const MOST_LOOKED_AT = 5000;
const FORGOTTEN_AT_ONCE = 5000;
/** The queue may report a request this many ms later than its neighbours. */
const LATE_MS = 60_000;

/** Stores the newest requests of any kind that have ended, numbered as the queue reported them. */
export class Requests {
  readonly #sql: Sql;
  readonly #most: number;
  #added = 0;

  /** @param most the most requests stored of each kind */
  constructor(sql: Sql, most = MOST_OF_A_KIND) {
    this.#sql = sql;
    this.#most = most;
  }

  /** Stores requests. @returns those that were not reported before */
  add(records: readonly RequestRecord[]): RequestRecord[] {
    const news = records.filter((record) => insertRequest(this.#sql, record, isNotable(record)));
    this.#added += news.length;
    return news;
  }

  /**
   * Returns a page, newest first. One look is short whatever is requested, so a page may be short, or empty, before the
   * end: a page is the last one only if its `next` is null.
   */
  list(wanted: RequestsWanted): RequestPage {
    const { viewer, filter, since, limit } = wanted;
    // For a tenant, others' requests do not exist: a filter for them finds nothing.
    if (viewer !== null && filter.tenant !== null && filter.tenant !== viewer)
      return { requests: [], next: null };
    const asked = { ...wanted, filter: { ...filter, tenant: viewer ?? filter.tenant } };
    const before = wanted.before ?? Number.MAX_SAFE_INTEGER;
    // A request is found by its id through an index, however old it is.
    const last = wanted.id === null ? lastOf(this.#sql, before, MOST_LOOKED_AT) : null;
    const found = requestsBetween(this.#sql, last?.seq ?? 0, before, asked, limit);
    const requests = found.map(({ record }) => record);
    if (found.length === limit) return { requests, next: found.at(-1)!.seq };
    const isAll = last === null || (since !== null && last.ended_at < since - LATE_MS);
    return { requests, next: isAll ? null : last.seq };
  }

  /** Forgets the words with which requests of this id failed; their codes stay. */
  eraseError(id: string): void {
    this.#sql.exec(`UPDATE requests SET error = NULL WHERE id = ?`, id);
  }

  /**
   * Deletes requests that ended before a time, and the oldest beyond a number. @returns when the oldest left ended,
   * epoch ms
   */
  bound(before: number): number | null {
    if (this.#added >= BOUNDED_EVERY) {
      for (const isNotable of [true, false]) boundRequests(this.#sql, isNotable, this.#most);
      this.#added = 0;
    }
    return forgetRequests(this.#sql, before, FORGOTTEN_AT_ONCE);
  }
}

/** The statements on requests that have ended, which are numbered as the queue reported them. Times are epoch ms. */

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
  'alias',
  'fallback',
] as const satisfies (keyof RequestRecord)[];

const INSERT = `INSERT OR IGNORE INTO requests (${COLUMNS.join(', ')}, is_notable)
  VALUES (${COLUMNS.map(() => '?').join(', ')}, ?) RETURNING seq`;

/** Stores a request. @returns whether it was not there yet */
function insertRequest(sql: Sql, record: RequestRecord, isNotable: boolean): boolean {
  const values = COLUMNS.map((name) => sqlValueOf(record[name]));
  return sql.exec(INSERT, ...values, isNotable ? 1 : 0).length > 0;
}

/** Finds the last of the `most` requests before a number; a list does not look beyond it. Null: there are fewer. */
function lastOf(sql: Sql, before: number, most: number): { seq: number; ended_at: number } | null {
  const [row] = sql.exec(
    `SELECT seq, ended_at FROM requests WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?`,
    before,
    most - 1,
  );
  return row ? { seq: Number(row.seq), ended_at: Number(row.ended_at) } : null;
}

/** Lists the requests between two numbers, the first included, that fit the filter, newest first. */
function requestsBetween(
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

/** Deletes the oldest requests of a kind beyond this many. */
function boundRequests(sql: Sql, isNotable: boolean, most: number): void {
  sql.exec(
    `DELETE FROM requests WHERE is_notable = ?1 AND seq <=
       (SELECT seq FROM requests WHERE is_notable = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)`,
    isNotable ? 1 : 0,
    most,
  );
}

/**
 * Deletes at most `most` of the oldest requests that ended before a time. @returns when the oldest that is left ended
 */
function forgetRequests(sql: Sql, before: number, most: number): number | null {
  sql.exec(
    `DELETE FROM requests WHERE seq IN (SELECT seq FROM requests ORDER BY seq LIMIT ?) AND ended_at < ?`,
    most,
    before,
  );
  const [oldest] = sql.exec(`SELECT ended_at FROM requests ORDER BY seq LIMIT 1`);
  return oldest ? Number(oldest.ended_at) : null;
}

function sqlValueOf(value: RequestRecord[keyof RequestRecord]): SqlValue {
  return typeof value === 'boolean' ? Number(value) : (value ?? null);
}

function recordOf(row: Row): RequestRecord {
  const { seq, alias, fallback, ...rest } = row;
  const asked = alias === null ? {} : { alias, fallback };
  return { ...rest, ...asked, is_slow: row.is_slow === 1 } as unknown as RequestRecord;
}
