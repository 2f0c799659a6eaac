import type { Exposed } from '../../../durable/calls.ts';
import type { ResponsePlace } from '../../../protocol/response-rows.ts';
import type { Fields, Item, ItemsWanted, NewItem, NewResponse, Prepared, Refusal } from '../types.ts';
import * as chains from './chains.ts';
import * as conversations from './conversations.ts';
import { listResponses, placeOfResponse, type ResponsePage, type ResponsesWanted } from './listing.ts';
import { type ItemPage, inputPage } from './reads.ts';
import { bytesByTenant } from './tenants.ts';

/*
 * The calls of an object of responses that its rules answer alone: the object makes itself a method of each entry. A
 * call for which the object does more is a method of its class. Arguments and answers are plain data. `viewer` is the
 * tenant that asks; null sees all.
 */
export const CALLS = {
  /** Finds what a response would go on from; nothing is stored or locked. */
  history: (
    on: chains.Responses,
    asked: NewResponse,
    viewer: chains.Viewer,
    mostBytes: number,
  ): Prepared | Refusal => chains.history(on, asked, viewer, mostBytes),

  /** Returns a page of the items that a response was made from; null: there is no such response, or no such item. */
  inputItems: (
    { sql }: chains.Responses,
    id: string,
    wanted: ItemsWanted,
    viewer: chains.Viewer,
  ): ItemPage | null => {
    const found = chains.visible(sql, id, viewer);
    return found && inputPage(sql, [...found.history, ...found.input], wanted);
  },

  /** Returns a page of the responses that the viewer sees, newest first. */
  list: ({ sql }: chains.Responses, wanted: ResponsesWanted): ResponsePage => listResponses(sql, wanted),

  /** Returns a response with its chain and conversation; null: there is none. */
  place: ({ sql }: chains.Responses, id: string, viewer: chains.Viewer): ResponsePlace | null =>
    placeOfResponse(sql, id, viewer),

  /** Returns the bytes that are stored for each tenant. */
  stored: ({ sql }: chains.Responses): { tenant: string | null; bytes: number }[] => bytesByTenant(sql),

  getConversation: (
    on: chains.Responses,
    id: string,
    viewer: chains.Viewer,
  ): conversations.ConversationView | Refusal => conversations.get(on, id, viewer),

  changeConversation: (
    on: chains.Responses,
    id: string,
    metadata: Fields,
    viewer: chains.Viewer,
  ): conversations.ConversationView | Refusal => conversations.change(on, id, metadata, viewer),

  /** Deletes a conversation. @returns why it is not; null: it is */
  removeConversation: (on: chains.Responses, id: string, viewer: chains.Viewer): Refusal | null =>
    conversations.remove(on, id, viewer),

  addItems: (
    on: chains.Responses,
    id: string,
    items: readonly NewItem[],
    viewer: chains.Viewer,
    storedBytes: number | null,
    mostBytes: number,
  ): { items: Item[] } | Refusal => conversations.addItems(on, id, items, viewer, { storedBytes, mostBytes }),

  conversationItems: (
    on: chains.Responses,
    id: string,
    wanted: ItemsWanted,
    viewer: chains.Viewer,
  ): ItemPage | Refusal => conversations.listItems(on, id, wanted, viewer),

  conversationItem: (
    on: chains.Responses,
    id: string,
    itemId: string,
    viewer: chains.Viewer,
  ): { item: Item } | Refusal => conversations.getItem(on, id, itemId, viewer),

  /** Takes an item out of a conversation. */
  removeItem: (
    on: chains.Responses,
    id: string,
    itemId: string,
    viewer: chains.Viewer,
  ): conversations.ConversationView | Refusal => conversations.removeItem(on, id, itemId, viewer),

  /** Returns the request of the caller for whom a conversation is locked; null: nobody waits who could be gone. */
  lockJob: (on: chains.Responses, conversation: string): string | null =>
    conversations.lockJob(on, conversation),

  /** Takes what the queue said of the request for which a conversation is locked. @returns whether it is free */
  checkLock: (on: chains.Responses, conversation: string, job: string, isOver: boolean): boolean =>
    conversations.checkLock(on, conversation, job, isOver),
};

/** The methods that the object makes of the table. */
export type ExposedCalls = Exposed<typeof CALLS>;
