import { expose } from '../../../durable/calls.ts';
import type { HostedObject, ObjectHost } from '../../../durable/host.ts';
import { createTables, type TableSteps } from '../../../durable/ports.ts';
import { EVENT_TABLES, type EventReceiver, EventWebhooks } from '../../../webhooks/events.ts';
import { SETTINGS_TOO_LARGE } from '../refusals.ts';
import type {
  CallerTerms,
  EndedResponse,
  Fields,
  NewItem,
  NewResponse,
  Prepared,
  Refusal,
} from '../types.ts';
import { Background } from './background.ts';
import { CALLS, type ExposedCalls } from './calls.ts';
import * as chains from './chains.ts';
import * as conversations from './conversations.ts';
import { dropEvents, readEvents } from './event-log.ts';
import type { BackgroundAsk } from './ports.ts';
import { begin, isTooLong } from './progress.ts';
import { viewOf } from './reads.ts';
import {
  endedEvents,
  expiredResponses,
  findResponse,
  isAnyRunning,
  nextEventsEnd,
  nextExpiry,
  RESPONSES_TABLES,
} from './tables.ts';

/** The first state version that has these tables. */
const FIRST_VERSION = 29;
const STEPS: TableSteps = { [FIRST_VERSION]: [] };

/** An object that ended while responses are running begins again after this time, ms, at the latest. */
const LOOK_AGAIN_MS = 60_000;

/** At most this many responses, and conversations, are deleted in one commit. */
const EXPIRED_AT_ONCE = 50;

export interface ResponsesSettings {
  /** How long responses are stored, seconds from their creation. */
  retention_seconds: number;
  /** How long conversations are stored, seconds from their last change; null: until they are deleted. */
  conversations_retention_seconds: number | null;
}

/** A response for its caller, with what a reader of its stream has to know. */
export interface ResponseView {
  response: Fields;
  is_streamed: boolean;
}

/**
 * The answer to a reader of a response's stream. `missing`: there is no such response; `not_streamed`: it was made without
 * a stream; `too_old`: its events are deleted.
 */
export type Streamed =
  | 'missing'
  | 'not_streamed'
  | 'too_old'
  | {
      /** Server-sent events. */
      text: string;
      /** The sequence number of the last one, or that of the call if there is none. */
      last: number;
      /** Whether none comes after these. */
      is_over: boolean;
    };

/** The outcome of a request to delete a response. */
export type Removal = 'removed' | 'missing' | 'running';

/** The class makes methods of a table of calls. */
const Exposing = class {} as new () => ExposedCalls;

/**
 * Stores the responses and conversations of a queue id; there is one such object for each queue. Its methods are the
 * calls of the gateway: arguments and answers are plain data. `viewer` is the tenant that asks; null sees all.
 */
export class ResponsesObject extends Exposing implements HostedObject {
  static {
    type Calls = Record<string, (on: chains.Responses, ...asked: unknown[]) => unknown>;
    expose(ResponsesObject, CALLS as Calls, async (object, name, asked) =>
      (CALLS as Calls)[name]!(object.#on, ...asked),
    );
  }

  readonly #host: ObjectHost;
  readonly #on: chains.Responses;
  readonly #ask: BackgroundAsk;
  readonly #background: Background;
  readonly #webhooks: EventWebhooks;

  constructor(host: ObjectHost, settings: ResponsesSettings, ask: BackgroundAsk, receiver: EventReceiver) {
    super();
    this.#host = host;
    this.#ask = ask;
    createTables(host.sql, [...RESPONSES_TABLES, ...EVENT_TABLES], STEPS);
    this.#webhooks = new EventWebhooks(host, receiver);
    const { retention_seconds, conversations_retention_seconds: conversationsSeconds } = settings;
    this.#on = {
      queueId: host.queueId,
      sql: host.sql,
      now: () => host.now(),
      transaction: (work) => host.transaction(work),
      retentionMs: retention_seconds * 1000,
      conversationsMs: conversationsSeconds === null ? null : conversationsSeconds * 1000,
      ended: (id, status) => this.#webhooks.add(`response.${status}`, id),
    };
    this.#background = new Background({
      on: this.#on,
      ask,
      after: (ms, run) => host.after(ms, run),
      sleep: (ms) => new Promise((done) => void host.after(ms, done)),
      background: (work) => host.background(work),
      log: (level, message, fields) => host.log(level, message, { queue_id: host.queueId, ...fields }),
      ended: () => this.#setAlarm(),
    });
    this.#look();
  }

  /** Finds what a response goes on from, and locks its conversation; stores a response in the background as queued. */
  async prepare(asked: NewResponse, viewer: chains.Viewer, terms: CallerTerms): Promise<Prepared | Refusal> {
    const prepared = this.#prepared(asked, viewer, terms);
    if (asked.conversation !== null) this.#setAlarm();
    if (asked.background && !('status' in prepared)) this.#look();
    return prepared;
  }

  #prepared(asked: NewResponse, viewer: chains.Viewer, terms: CallerTerms): Prepared | Refusal {
    try {
      return this.#on.transaction(() => {
        const prepared = chains.prepare(this.#on, asked, viewer, terms);
        if (asked.background && !('status' in prepared)) begin(this.#on, asked.id);
        return prepared;
      });
    } catch (error) {
      if (isTooLong(error)) return SETTINGS_TOO_LARGE;
      throw error;
    }
  }

  /** Deletes a response in the background whose job was not taken. */
  async withdraw(id: string): Promise<void> {
    const found = findResponse(this.#on.sql, id);
    if (found?.ended_at !== null) return;
    chains.unlock(this.#on, found.conversation_id, id);
    chains.remove(this.#on, found);
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
    this.#setAlarm();
  }

  async createConversation(
    tenant: string | null,
    metadata: Fields,
    items: readonly NewItem[],
    storedBytes: number | null,
  ): Promise<conversations.ConversationView | Refusal> {
    const made = conversations.create(this.#on, tenant, metadata, items, storedBytes);
    this.#setAlarm();
    return made;
  }

  /** Returns a response; null: there is none. */
  async get(id: string, viewer: chains.Viewer): Promise<ResponseView | null> {
    const known = chains.visible(this.#on.sql, id, viewer);
    // The usage of a response that was ended while it ran is final only once its worker has stopped.
    const mayChange =
      known?.is_background &&
      (known.ended_at === null || known.status === 'cancelled' || known.status === 'failed');
    if (mayChange) await this.#background.refresh(id).catch(() => {});
    const found = chains.visible(this.#on.sql, id, viewer);
    return found && { response: viewOf(this.#on.sql, found), is_streamed: found.is_streamed };
  }

  /**
   * Cancels a response in the background, unless it is final.
   * @returns the response; `synchronous`: its caller waits for it itself; null: there is none
   */
  async cancel(id: string, viewer: chains.Viewer): Promise<Fields | 'synchronous' | null> {
    const known = chains.visible(this.#on.sql, id, viewer);
    if (known?.is_background === false) return 'synchronous';
    if (known?.ended_at === null) await this.#background.cancel(id);
    const found = chains.visible(this.#on.sql, id, viewer);
    return found && viewOf(this.#on.sql, found);
  }

  /**
   * Returns the events of a response after a sequence number, as soon as there are any, or none after `waitMs`.
   * @param after -1: from the first
   */
  async events(id: string, after: number, waitMs: number, viewer: chains.Viewer): Promise<Streamed> {
    const until = this.#host.now() + waitMs;
    for (;;) {
      const found = chains.visible(this.#on.sql, id, viewer);
      if (found === null) return 'missing';
      if (!found.is_streamed) return 'not_streamed';
      const isFinal = found.ended_at !== null;
      if (isFinal && found.events_until === null) return 'too_old';
      const { is_end, ...page } = readEvents(this.#on.sql, found, after);
      const left = until - this.#host.now();
      const isAny = page.last > after;
      if (!isFinal) this.#background.follow(id);
      if (isAny || isFinal || left <= 0) return { ...page, is_over: isFinal && is_end };
      await this.#background.news(id, left);
    }
  }

  /**
   * Deletes a response, and what its job holds of it: that first, so that a call that breaks off can be made again.
   * @throws if the queue or the object of files does not answer; the response is still there
   */
  async remove(id: string, viewer: chains.Viewer): Promise<Removal> {
    const known = chains.visible(this.#on.sql, id, viewer);
    if (known === null) return 'missing';
    if (known.ended_at === null) return 'running';
    if (known.is_background) await this.#background.erase(id);
    await this.#ask.eraseKept(id);
    const found = chains.visible(this.#on.sql, id, viewer);
    if (found !== null) chains.remove(this.#on, found);
    return 'removed';
  }

  async alarm(): Promise<void> {
    this.#webhooks.send();
    const { sql } = this.#on;
    const now = this.#host.now();
    for (const response of endedEvents(sql, now, EXPIRED_AT_ONCE)) dropEvents(sql, response);
    for (const response of expiredResponses(sql, now, EXPIRED_AT_ONCE)) chains.remove(this.#on, response);
    conversations.expire(this.#on, EXPIRED_AT_ONCE);
    // The next alarm tries again where the queue cannot be reached.
    await conversations.freeLost(this.#on, (job) => this.#ask.isOver(job)).catch(() => {});
    this.#look();
  }

  /** Goes on with the responses that are running, and sets the alarm. */
  #look(): void {
    this.#background.wake();
    this.#setAlarm();
  }

  #setAlarm(): void {
    const { sql } = this.#on;
    const again = isAnyRunning(sql) ? this.#host.now() + LOOK_AGAIN_MS : null;
    const times = [
      ...[nextExpiry(sql), nextEventsEnd(sql), again],
      ...[conversations.nextExpiry(this.#on), conversations.nextLook(this.#on)],
    ].filter((at) => at !== null);
    const at = times.length === 0 ? null : Math.min(...times);
    const set = this.#host.alarm.get();
    if (at !== null && (set === null || set > at)) this.#host.alarm.set(at);
  }
}
