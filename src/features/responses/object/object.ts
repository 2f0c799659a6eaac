import type { HostedObject, ObjectHost } from '../../../durable/host.ts';
import { createTables, type TableSteps } from '../../../durable/ports.ts';
import type { EndedResponse, Fields, ItemsWanted, NewResponse, Prepared, Refusal } from '../types.ts';
import * as chains from './chains.ts';
import { type ItemPage, inputPage, viewOf } from './reads.ts';
import { expiredResponses, nextExpiry, RESPONSES_TABLES } from './tables.ts';

/** The first state version that has these tables. */
const FIRST_VERSION = 29;
const STEPS: TableSteps = { [FIRST_VERSION]: [] };

/** At most this many responses are deleted in one commit. */
const EXPIRED_AT_ONCE = 200;

export interface ResponsesSettings {
  /** How long responses are stored, seconds from their creation. */
  retention_seconds: number;
}

/** A response for its caller, with what a reader of its stream has to know. */
export interface ResponseView {
  response: Fields;
  is_streamed: boolean;
}

/** What became of a request to delete a response. */
export type Removal = 'removed' | 'missing' | 'running';

/**
 * Stores the responses and conversations of a queue id; there is one such object for each queue. Its methods are the
 * calls of the gateway: arguments and answers are plain data. `viewer` is the tenant that asks; null sees all.
 */
export class ResponsesObject implements HostedObject {
  readonly #host: ObjectHost;
  readonly #on: chains.Responses;

  constructor(host: ObjectHost, { retention_seconds }: ResponsesSettings) {
    this.#host = host;
    createTables(host.sql, RESPONSES_TABLES, STEPS);
    this.#on = { sql: host.sql, now: () => host.now(), retentionMs: retention_seconds * 1000 };
    this.#setAlarm();
  }

  /** Finds what a response goes on from, and locks its conversation; stores a response in the background as queued. */
  async prepare(asked: NewResponse, viewer: chains.Viewer): Promise<Prepared | Refusal> {
    return chains.prepare(this.#on, asked, viewer);
  }

  /** Stores a response that has ended and whose caller waited for it. @returns as `chains.keep` */
  async keep(asked: NewResponse, ended: EndedResponse, viewer: chains.Viewer): Promise<boolean> {
    const isKept = chains.keep(this.#on, asked, ended, viewer);
    this.#setAlarm();
    return isKept;
  }

  /** Frees the conversation of a response that did not come to its end. */
  async release(conversation: string, id: string): Promise<void> {
    chains.unlock(this.#on, conversation, id);
  }

  /** Returns a response; null: there is none. */
  async get(id: string, viewer: chains.Viewer): Promise<ResponseView | null> {
    const found = chains.visible(this.#on.sql, id, viewer);
    return found && { response: viewOf(this.#on.sql, found), is_streamed: found.is_streamed };
  }

  /** Returns a page of the items that a response was made from; null: there is no such response, or no such item. */
  async inputItems(id: string, wanted: ItemsWanted, viewer: chains.Viewer): Promise<ItemPage | null> {
    const found = chains.visible(this.#on.sql, id, viewer);
    return found && inputPage(this.#on.sql, [...found.history, ...found.input], wanted);
  }

  async remove(id: string, viewer: chains.Viewer): Promise<Removal> {
    const found = chains.visible(this.#on.sql, id, viewer);
    if (found === null) return 'missing';
    if (found.ended_at === null) return 'running';
    chains.remove(this.#on, found);
    return 'removed';
  }

  async alarm(): Promise<void> {
    const expired = expiredResponses(this.#on.sql, this.#on.now(), EXPIRED_AT_ONCE);
    for (const response of expired) chains.remove(this.#on, response);
    this.#setAlarm();
  }

  #setAlarm(): void {
    const at = nextExpiry(this.#on.sql);
    const set = this.#host.alarm.get();
    if (at !== null && (set === null || set > at)) this.#host.alarm.set(at);
  }
}
