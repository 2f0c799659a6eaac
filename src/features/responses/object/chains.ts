import type { Sql } from '../../../durable/ports.ts';
import {
  full,
  LOCKED,
  MOST_ITEMS,
  noConversation,
  noPrevious,
  notUsable,
  TOO_LONG,
  tooLarge,
} from '../refusals.ts';
import type { CallerTerms, EndedResponse, FinalStatus, NewResponse, Prepared, Refusal } from '../types.ts';
import { isFinal } from '../types.ts';
import { areLargerThan, deleteItems, insertItems, itemsOf } from './items.ts';
import { packBody } from './stored-body.ts';
import {
  conversationsOfRoot,
  deleteResponse,
  findConversation,
  findResponse,
  insertResponse,
  isGoneOnFrom,
  isShape,
  itemsOfRoot,
  rootOf,
  type StoredResponse,
  saveConversation,
  saveResponse,
} from './tables.ts';
import { bytesOfTenant } from './tenants.ts';

/** The rules of stored responses: what one may go on from, what it leaves, and what goes with it. */

/** The queue, and the storage, clock and periods that the rules work with. */
export interface Responses {
  queueId: string;
  sql: Sql;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Runs work and undoes its writes if it throws. */
  transaction<T>(work: () => T): T;
  /** How long a response is stored, ms from its creation. */
  retentionMs: number;
  /** How long a conversation is stored after its last change, ms; null: until it is deleted. */
  conversationsMs: number | null;
  /** Is called when a response in the background has ended, in the commit that ends it. */
  ended(id: string, status: FinalStatus): void;
}

/** Whose responses a caller sees: those of a tenant; null: all. */
export type Viewer = string | null;

/** Returns a response that the viewer may see; null: there is none. */
export function visible(sql: Sql, id: string, viewer: Viewer): StoredResponse | null {
  const found = findResponse(sql, id);
  return found !== null && (viewer === null || found.tenant === viewer) ? found : null;
}

/** Returns the refusal to store more for a tenant that has as much as it may; null: it may have more. */
export function storageRefusal(sql: Sql, tenant: string | null, most: number | null): Refusal | null {
  const bytes = most === null ? 0 : bytesOfTenant(sql, tenant);
  return most !== null && bytes >= most ? full(tenant, bytes, most) : null;
}

/** Where a response stands in its chain. */
interface Place {
  history: number[];
  root: number;
}

/**
 * Returns the items that come before a response's own input, and locks its conversation. A response in the background
 * is stored at once, as `queued`; any other is stored when it has ended.
 */
export function prepare(
  on: Responses,
  asked: NewResponse,
  viewer: Viewer,
  { job, stored_bytes, history_bytes }: CallerTerms,
): Prepared | Refusal {
  const place = placeOf(on.sql, asked, viewer);
  if ('status' in place) return place;
  const tooMuch = historyRefusal(on.sql, place.history, history_bytes);
  if (tooMuch !== null) return tooMuch;
  const items = itemsOf(on.sql, place.history);
  const refusal = asked.store ? storageRefusal(on.sql, asked.tenant, stored_bytes) : null;
  if (refusal !== null) return refusal;
  lock(on, asked, job);
  // A call that met a restart is made again: the response may be stored already.
  if (asked.background && findResponse(on.sql, asked.id) === null) {
    const body = JSON.stringify({ ...JSON.parse(asked.echo), output: undefined, status: undefined });
    insertResponse(on.sql, { ...stored(on, asked, place), status: 'queued', body, ended_at: null });
  }
  return { history: items.map(({ json }) => json) };
}

/** Returns the items that would come before a response's own input, also where its conversation is locked. */
export function history(
  { sql }: Responses,
  asked: NewResponse,
  viewer: Viewer,
  mostBytes: number,
): Prepared | Refusal {
  const place = placeOf(sql, asked, viewer);
  if (place !== LOCKED && 'status' in place) return place;
  const numbers = 'status' in place ? findConversation(sql, asked.conversation!)!.items : place.history;
  return (
    historyRefusal(sql, numbers, mostBytes) ?? { history: itemsOf(sql, numbers).map(({ json }) => json) }
  );
}

function historyRefusal(sql: Sql, numbers: readonly number[], mostBytes: number): Refusal | null {
  if (numbers.length > MOST_ITEMS) return TOO_LONG;
  return areLargerThan(sql, mostBytes, numbers) ? tooLarge(mostBytes) : null;
}

/**
 * Stores a response that its caller waited for, in one commit with what it leaves in its conversation.
 * @returns false if what it goes on from has been deleted meanwhile; nothing is stored then
 */
export function keep(on: Responses, asked: NewResponse, ended: EndedResponse, viewer: Viewer): boolean {
  // A call that met a restart is made again: the response may be stored already.
  if (findResponse(on.sql, asked.id) !== null) return true;
  const place = placeOf(on.sql, asked, viewer);
  if ('status' in place) {
    unlock(on, asked.conversation, asked.id);
    return false;
  }
  insertResponse(on.sql, stored(on, asked, place));
  end(on, findResponse(on.sql, asked.id)!, ended);
  return true;
}

/**
 * Ends a stored response: its output is stored, its conversation goes on if it has one, and is free again.
 */
export function end(on: Responses, response: StoredResponse, { status, body, output }: EndedResponse): void {
  if (isFinal(response.status) && response.ended_at !== null) return;
  const numbers = insertItems(on.sql, output, response.tenant);
  const { conversation_id, input } = response;
  saveResponse(on.sql, {
    ...response,
    status,
    ...packBody(on.sql, response, body),
    output: numbers,
    ended_at: on.now(),
  });
  if (status === 'completed' || status === 'incomplete') append(on, conversation_id, [...input, ...numbers]);
  unlock(on, conversation_id, response.id);
  if (response.is_background) on.ended(response.id, status);
}

/**
 * Deletes a response with those of its items that nothing else has. Thousands of responses may go on from the same one,
 * so it is only where this does not say who has the items that all of the chain are read.
 */
export function remove(on: Responses, response: StoredResponse): void {
  const { sql } = on;
  const { history, input, output, root, shape, conversation_id, previous_id } = response;
  deleteResponse(sql, response);
  if (shape !== null && !isShape(sql, root, shape)) deleteItems(sql, [shape]);
  const all = [...history, ...input, ...output];
  if (isGoneOnFrom(sql, root, all)) return;
  if (conversation_id !== null) return dropItems(sql, all, root);
  deleteItems(sql, [...input, ...output]);
  // The responses before it may have left their items to it.
  const isLeftWith = previous_id !== null && findResponse(sql, previous_id) === null;
  if (isLeftWith && !isGoneOnFrom(sql, root, history)) dropItems(sql, history, root);
}

/** Deletes those items that no other response of the chain and no conversation has. */
export function dropItems(sql: Sql, numbers: readonly number[], root: number): void {
  const unused = new Set(numbers);
  for (const list of [...conversationsOfRoot(sql, root).map(({ items }) => items), ...itemsOfRoot(sql, root)])
    for (const number of list) unused.delete(number);
  deleteItems(sql, unused);
}

/** Frees a conversation, if this response has it. */
export function unlock(on: Responses, conversation: string | null, id: string): void {
  const found = conversation === null ? null : findConversation(on.sql, conversation);
  if (found?.locked_by === id) saveConversation(on.sql, { ...found, ...UNLOCKED });
}

function stored(on: Responses, asked: NewResponse, { history, root }: Place): Omit<StoredResponse, 'seq'> {
  const input = insertItems(on.sql, asked.input, asked.tenant);
  const now = on.now();
  return {
    id: asked.id,
    tenant: asked.tenant,
    token_name: asked.token_name,
    model: asked.model,
    status: 'in_progress',
    is_background: asked.background,
    is_streamed: asked.background && asked.stream,
    previous_id: asked.previous_response_id,
    conversation_id: asked.conversation,
    root,
    body: '{}',
    shape: null,
    history,
    input,
    output: [],
    created_at: now,
    ended_at: null,
    expires_at: now + on.retentionMs,
    fence: 0,
    has_output: false,
    events_until: null,
  };
}

function placeOf(sql: Sql, asked: NewResponse, viewer: Viewer): Place | Refusal {
  const { id, previous_response_id: previous, conversation } = asked;
  if (previous !== null) return placeAfter(visible(sql, previous, viewer), previous);
  if (conversation === null) return { history: [], root: rootOf(id) };
  const found = findConversation(sql, conversation);
  if (found === null || (viewer !== null && found.tenant !== viewer)) return noConversation(conversation);
  if (found.locked_by !== null && found.locked_by !== id) return LOCKED;
  return { history: found.items, root: found.root };
}

function placeAfter(before: StoredResponse | null, id: string): Place | Refusal {
  if (before === null) return noPrevious(id);
  const { history, input, output, root, status } = before;
  if (status !== 'completed' && status !== 'incomplete') return notUsable(status);
  return { history: [...history, ...input, ...output], root };
}

/** The lock of a conversation that nobody has. */
export const UNLOCKED = { locked_by: null, lock_job: null, lock_over_at: null } as const;

function lock(on: Responses, { conversation, id, background }: NewResponse, job: string): void {
  const found = conversation === null ? null : findConversation(on.sql, conversation);
  if (found === null) return;
  saveConversation(on.sql, { ...found, ...UNLOCKED, locked_by: id, lock_job: background ? null : job });
}

function append(on: Responses, conversation: string | null, numbers: readonly number[]): void {
  const found = conversation === null ? null : findConversation(on.sql, conversation);
  if (found === null) return;
  saveConversation(on.sql, { ...found, items: [...found.items, ...numbers], changed_at: on.now() });
}
