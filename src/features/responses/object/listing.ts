import type { Row, Sql, SqlValue } from '../../../durable/ports.ts';
import type { ResponsePlace, ResponseRow } from '../../../protocol/response-rows.ts';
import type { Viewer } from './chains.ts';
import { findConversation } from './tables.ts';

/** The list of stored responses for people: where each stands, and nothing of what was said. */

/** The values that listed responses have; null: any. */
interface ResponseFilter {
  status: string | null;
  tenant: string | null;
  model: string | null;
  conversation_id: string | null;
}

export interface ResponsesWanted {
  filter: ResponseFilter;
  /** The beginning of an id; null: any. */
  id: string | null;
  /** Created then or later, and before that, epoch ms; null: at any time. */
  since: number | null;
  until: number | null;
  viewer: Viewer;
  /** The `next` of the page before; null: the first page. */
  before: number | null;
  limit: number;
}

export interface ResponsePage {
  responses: ResponseRow[];
  /** Where the next page begins; null: there are no older ones. A page may be empty and have a next one. */
  next: number | null;
}

/** The most rows that one call looks at: a filter that fits few must not hold up the object. */
const ROWS_OF_LOOK = 5000;
/** The most responses of a chain that are listed. */
const MOST_OF_CHAIN = 50;

const SELECT = `SELECT seq, id, status, model, tenant, token_name, is_background, previous_id, conversation_id,
  created_at, ended_at, expires_at FROM responses`;

/** Returns a page of responses, newest first. */
export function listResponses(sql: Sql, wanted: ResponsesWanted): ResponsePage {
  const { filter, id, since, until, viewer, before, limit } = wanted;
  const [newest] = sql.exec(`SELECT max(seq) AS seq FROM responses`);
  const below = before ?? Number(newest?.seq ?? 0) + 1;
  const from = Math.max(0, below - ROWS_OF_LOOK);
  const clauses = ['seq < ?', 'seq >= ?'];
  const values: SqlValue[] = [below, from];
  const also = (clause: string, value: SqlValue) => {
    if (value === null) return;
    clauses.push(clause);
    values.push(value);
  };
  for (const [column, value] of Object.entries({ ...filter, ...(viewer !== null && { tenant: viewer }) }))
    also(`${column} = ?`, value);
  if (id !== null) {
    clauses.push('substr(id, 1, ?) = ?');
    values.push(id.length, id);
  }
  also('created_at >= ?', since);
  also('created_at < ?', until);
  const found = sql.exec(
    `${SELECT} WHERE ${clauses.join(' AND ')} ORDER BY seq DESC LIMIT ?`,
    ...values,
    limit,
  );
  const last = found.length === limit ? Number(found.at(-1)!.seq) : from;
  return { responses: found.map(rowOf), next: last > 1 ? last : null };
}

/** Returns where a response stands; null: there is none that the viewer may see. */
export function placeOfResponse(sql: Sql, id: string, viewer: Viewer): ResponsePlace | null {
  const response = rowById(sql, id);
  if (response === null || (viewer !== null && response.tenant !== viewer)) return null;
  const chain: ResponseRow[] = [];
  let previous = response.previous_response_id;
  while (previous !== null && chain.length < MOST_OF_CHAIN) {
    const row = rowById(sql, previous);
    if (row === null) break;
    chain.push(row);
    previous = row.previous_response_id;
  }
  const { conversation } = response;
  const found = conversation === null ? null : findConversation(sql, conversation);
  return {
    response,
    chain,
    is_cut: previous !== null,
    conversation: found && {
      id: found.id,
      items: found.items.length,
      created_at: found.created_at,
      changed_at: found.changed_at,
      locked_by: found.locked_by,
    },
  };
}

function rowById(sql: Sql, id: string): ResponseRow | null {
  const [row] = sql.exec(`${SELECT} WHERE id = ?`, id);
  return row ? rowOf(row) : null;
}

function rowOf({ seq: _, is_background, previous_id, conversation_id, ...rest }: Row): ResponseRow {
  return {
    ...(rest as unknown as ResponseRow),
    is_background: is_background === 1,
    previous_response_id: previous_id as string | null,
    conversation: conversation_id as string | null,
  };
}
