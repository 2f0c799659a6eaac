import type { Sql } from '../../durable/ports.ts';
import { isNotable, type RequestRecord } from '../../protocol/index.ts';
import type { RequestPage, RequestsWanted } from '../rpc.ts';
import { boundRequests, forgetRequests, insertRequest, lastOf, requestsBetween } from './request-table.ts';

/**
 * The most requests stored of each kind: those that went well, and those that failed or were slow, which the others do
 * not push out.
 */
const MOST_OF_A_KIND = 50_000;
/** The number of new requests after which the stored ones are bounded. */
const BOUNDED_EVERY = 1000;
/** The most requests that one look passes over: a filter that fits few of many must not hold up the fleet. */
const MOST_LOOKED_AT = 5000;
const FORGOTTEN_AT_ONCE = 5000;
/** The queue may report a request this many ms later than its neighbours. */
const LATE_MS = 60_000;

/** The newest requests of any kind that have ended, numbered as the queue reported them. */
export class Requests {
  readonly #sql: Sql;
  readonly #most: number;
  #added = 0;

  /** @param most stored of each kind */
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
   * end: it is the last one only when its `next` is null.
   */
  list(wanted: RequestsWanted): RequestPage {
    const { viewer, filter, since, limit } = wanted;
    // Others' requests do not exist for a tenant: a filter for them finds nothing.
    if (viewer !== null && filter.tenant !== null && filter.tenant !== viewer)
      return { requests: [], next: null };
    const asked = { ...wanted, filter: { ...filter, tenant: viewer ?? filter.tenant } };
    const before = wanted.before ?? Number.MAX_SAFE_INTEGER;
    // An id is found by an index, however far back.
    const last = wanted.id === null ? lastOf(this.#sql, before, MOST_LOOKED_AT) : null;
    const found = requestsBetween(this.#sql, last?.seq ?? 0, before, asked, limit);
    const requests = found.map(({ record }) => record);
    if (found.length === limit) return { requests, next: found.at(-1)!.seq };
    const isAll = last === null || (since !== null && last.ended_at < since - LATE_MS);
    return { requests, next: isAll ? null : last.seq };
  }

  /**
   * Forgets requests that ended before a time, and the oldest beyond a number. @returns when the oldest ended, epoch ms
   */
  bound(before: number): number | null {
    if (this.#added >= BOUNDED_EVERY) {
      for (const isNotable of [true, false]) boundRequests(this.#sql, isNotable, this.#most);
      this.#added = 0;
    }
    return forgetRequests(this.#sql, before, FORGOTTEN_AT_ONCE);
  }
}
