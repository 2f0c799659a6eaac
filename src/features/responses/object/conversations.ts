import { idOf } from '../../../protocol/ids.ts';
import { LOCKED, MOST_ITEMS, noConversation, TOO_LONG, tooLarge } from '../refusals.ts';
import type { Fields, Item, ItemsWanted, NewItem, Refusal } from '../types.ts';
import { dropItems, type Responses, storageRefusal, UNLOCKED, type Viewer } from './chains.ts';
import { areLargerThan, insertItems, itemsOf } from './items.ts';
import { type ItemPage, inputPage, itemView } from './reads.ts';
import {
  callersLocks,
  deleteConversation,
  findConversation,
  idleConversations,
  longestIdle,
  rootOf,
  type StoredConversation,
  saveConversation,
} from './tables.ts';

/**
 * The rules of conversations: lists of items that go on with each response that is made in them. One response at a time
 * is made in a conversation, which is locked meanwhile; nothing else changes its items then.
 */

/** A conversation as callers read it. */
export type ConversationView = Fields & { id: string; object: 'conversation' };

/**
 * A request that the queue does not know may be between two attempts, or its caller may still read the end of its
 * answer. If the queue does not know it this many ms later either, its gateway is gone.
 */
const GONE_AFTER_MS = 10_000;
/** The queue is asked this often, ms, about the requests for which conversations are locked. */
const LOOK_MS = 60_000;
/** One round asks the queue about at most this many locked conversations. */
const LOCKS_AT_ONCE = 50;

/** Makes a conversation. @param storedBytes the most that may be stored for its tenant; null: any */
export function create(
  { sql, now, queueId }: Responses,
  tenant: string | null,
  metadata: Fields,
  items: readonly NewItem[],
  storedBytes: number | null,
): ConversationView | Refusal {
  const refusal = storageRefusal(sql, tenant, storedBytes);
  if (refusal !== null) return refusal;
  const id = idOf('conversation', queueId);
  const conversation: StoredConversation = {
    id,
    root: rootOf(id),
    tenant,
    metadata: JSON.stringify(metadata),
    items: insertItems(sql, items, tenant),
    created_at: now(),
    changed_at: now(),
    ...UNLOCKED,
  };
  saveConversation(sql, conversation);
  return view(conversation);
}

/** Returns a conversation. */
export function get(on: Responses, id: string, viewer: Viewer): ConversationView | Refusal {
  const found = visible(on, id, viewer);
  return found === null ? noConversation(id) : view(found);
}

/** Changes the metadata of a conversation. */
export function change(
  on: Responses,
  id: string,
  metadata: Fields,
  viewer: Viewer,
): ConversationView | Refusal {
  const found = visible(on, id, viewer);
  if (found === null) return noConversation(id);
  const changed = { ...found, metadata: JSON.stringify(metadata), changed_at: on.now() };
  saveConversation(on.sql, changed);
  return view(changed);
}

/** Deletes a conversation; its items stay with the stored responses that have them. @returns null: it is deleted */
export function remove(on: Responses, id: string, viewer: Viewer): Refusal | null {
  const found = visible(on, id, viewer);
  if (found === null) return noConversation(id);
  if (found.locked_by !== null) return LOCKED;
  drop(on, found);
  return null;
}

/**
 * Adds items at the end of a conversation, and returns them.
 * @param most the most bytes that may be stored for its tenant, null: any, and that its items may have
 */
export function addItems(
  on: Responses,
  id: string,
  items: readonly NewItem[],
  viewer: Viewer,
  most: { storedBytes: number | null; mostBytes: number },
): { items: Item[] } | Refusal {
  const found = visible(on, id, viewer);
  if (found === null) return noConversation(id);
  if (found.locked_by !== null) return LOCKED;
  if (found.items.length + items.length > MOST_ITEMS) return TOO_LONG;
  if (areLargerThan(on.sql, most.mostBytes, found.items)) return tooLarge(most.mostBytes);
  const refusal = storageRefusal(on.sql, found.tenant, most.storedBytes);
  if (refusal !== null) return refusal;
  const numbers = insertItems(on.sql, items, found.tenant);
  saveConversation(on.sql, { ...found, items: [...found.items, ...numbers], changed_at: on.now() });
  return { items: items.map(itemView) };
}

/** Returns a page of the items of a conversation. */
export function listItems(
  on: Responses,
  id: string,
  wanted: ItemsWanted,
  viewer: Viewer,
): ItemPage | Refusal {
  const found = visible(on, id, viewer);
  if (found === null) return noConversation(id);
  return inputPage(on.sql, found.items, wanted) ?? noItem(id, wanted.after!, 400, 'after');
}

/** Returns an item of a conversation. */
export function getItem(on: Responses, id: string, itemId: string, viewer: Viewer): { item: Item } | Refusal {
  const found = visible(on, id, viewer);
  if (found === null) return noConversation(id);
  const item = itemsOf(on.sql, found.items).find((one) => one.id === itemId);
  return item === undefined ? noItem(id, itemId) : { item: itemView(item) };
}

/** Takes an item out of a conversation, and returns the conversation. */
export function removeItem(
  on: Responses,
  id: string,
  itemId: string,
  viewer: Viewer,
): ConversationView | Refusal {
  const found = visible(on, id, viewer);
  if (found === null) return noConversation(id);
  if (found.locked_by !== null) return LOCKED;
  const item = itemsOf(on.sql, found.items).find((one) => one.id === itemId);
  if (item === undefined) return noItem(id, itemId);
  const items = found.items.filter((number) => number !== item.number);
  saveConversation(on.sql, { ...found, items, changed_at: on.now() });
  dropItems(on.sql, [item.number], found.root);
  return view(found);
}

/** Returns the request of the caller for whom a conversation is locked; null: nobody waits who could be gone. */
export function lockJob({ sql }: Responses, id: string): string | null {
  return findConversation(sql, id)?.lock_job ?? null;
}

/**
 * Takes what the queue said of the request for which a conversation is locked, and frees the conversation if the
 * request has been over for a while: its gateway is gone then. @returns whether it is free
 */
export function checkLock({ sql, now }: Responses, id: string, job: string, isOver: boolean): boolean {
  const found = findConversation(sql, id);
  if (found === null || found.lock_job !== job) return found?.locked_by === null;
  const since = isOver ? (found.lock_over_at ?? now()) : null;
  const isFree = since !== null && now() - since >= GONE_AFTER_MS;
  saveConversation(sql, { ...found, ...(isFree ? UNLOCKED : { lock_over_at: since }) });
  return isFree;
}

/**
 * Frees the conversations that a gateway left locked when it was killed: the queue does not know the request of their
 * caller any more. A lock of a response in the background goes with its job.
 * @param isOver asks the queue about a request
 */
export async function freeLost(on: Responses, isOver: (job: string) => Promise<boolean>): Promise<void> {
  const locks = callersLocks(on.sql, LOCKS_AT_ONCE);
  await Promise.all(
    locks.map(async ({ id, lock_job }) => checkLock(on, id, lock_job, await isOver(lock_job))),
  );
}

/** Returns when the locks of conversations are looked at next, epoch ms; null: there are none. */
export function nextLook({ sql, now }: Responses): number | null {
  const locks = callersLocks(sql, LOCKS_AT_ONCE);
  if (locks.length === 0) return null;
  const isAnyOver = locks.some(({ lock_over_at }) => lock_over_at !== null);
  return now() + (isAnyOver ? GONE_AFTER_MS : LOOK_MS);
}

/** Deletes conversations that nothing has changed for the time that they are kept. */
export function expire(on: Responses, most: number): void {
  if (on.conversationsMs === null) return;
  for (const conversation of idleConversations(on.sql, on.now() - on.conversationsMs, most))
    drop(on, conversation);
}

/** Returns when the next conversation expires, epoch ms; null: none will. */
export function nextExpiry({ sql, conversationsMs }: Responses): number | null {
  const at = conversationsMs === null ? null : longestIdle(sql);
  return at === null ? null : at + conversationsMs!;
}

function drop({ sql }: Responses, { id, items, root }: StoredConversation): void {
  deleteConversation(sql, id);
  dropItems(sql, items, root);
}

function visible({ sql }: Responses, id: string, viewer: Viewer): StoredConversation | null {
  const found = findConversation(sql, id);
  return found !== null && (viewer === null || found.tenant === viewer) ? found : null;
}

function view({ id, metadata, created_at }: StoredConversation): ConversationView {
  return {
    id,
    object: 'conversation',
    created_at: Math.floor(created_at / 1000),
    metadata: JSON.parse(metadata) as Fields,
  };
}

function noItem(id: string, itemId: string, status = 404, param: string | null = null): Refusal {
  const message = `Item with id '${itemId.slice(0, 128)}' not found in conversation '${id}'.`;
  return { status, message, code: status === 404 ? 'item_not_found' : 'invalid_parameter', param };
}
