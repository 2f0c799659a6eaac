import type { Sql } from '../../../durable/ports.ts';
import { eventText } from '../response-object.ts';
import type { Fields } from '../types.ts';
import type { StoredResponse } from './tables.ts';

/**
 * The events of a response that streams in the background, as they are stored. Their sequence numbers are their places
 * in the list. A delta that differs from the event before it by its text alone is stored as that text, so a token
 * takes some ten bytes.
 */

/** A row holds about as many events as fit on a page of the database, which is written whole anyway. */
const ROW_CHARACTERS = 3500;

/** The most characters of events in one answer to a reader, about. */
const PAGE_CHARACTERS = 256 * 1024;

/** The most rows that are read for one answer. */
const PAGE_ROWS = 8;

/** Events as they stand in a row: a text is the delta of an event that is otherwise as the one before it. */
type StoredEvents = (Fields | string)[];

/** Returns the number of stored events, which is the sequence number of the next one. */
export function countEvents(sql: Sql, { seq }: StoredResponse): number {
  const [row] = sql.exec(
    `SELECT first + count AS next FROM events WHERE response = ? ORDER BY first DESC LIMIT 1`,
    seq,
  );
  return Number(row?.next ?? 0);
}

/** Stores events behind those that are there. However many there are, each row is short: a reader is given whole rows. */
export function appendEvents(sql: Sql, { seq }: StoredResponse, events: readonly Fields[]): void {
  if (events.length === 0) return;
  const [last] = sql.exec(
    `SELECT first, count, events FROM events WHERE response = ? ORDER BY first DESC LIMIT 1`,
    seq,
  );
  const isFull = last !== undefined && String(last.events).length >= ROW_CHARACTERS;
  let first = last === undefined ? 0 : Number(last.first) + (isFull ? Number(last.count) : 0);
  let stored: StoredEvents = last === undefined || isFull ? [] : JSON.parse(String(last.events));
  let before = unpacked(stored).at(-1);
  let characters = stored.length === 0 ? 0 : String(last?.events).length;
  const write = () =>
    sql.exec(
      `INSERT OR REPLACE INTO events (response, first, count, events) VALUES (?, ?, ?, ?)`,
      ...[seq, first, stored.length, JSON.stringify(stored)],
    );
  for (const event of events) {
    if (characters >= ROW_CHARACTERS) {
      write();
      first += stored.length;
      stored = [];
      before = undefined;
      characters = 0;
    }
    const one = packed(event, before);
    stored.push(one);
    before = event;
    characters += JSON.stringify(one).length + 1;
  }
  write();
}

/** A part of a response's stream. */
export interface EventPage {
  /** The events as a stream of server-sent events. */
  text: string;
  /** The sequence number of the last one; that after which was read if there is none. */
  last: number;
  /** Whether no further event is stored. */
  is_end: boolean;
}

/** Returns the events after a sequence number, as many as one answer holds. */
export function readEvents(sql: Sql, response: StoredResponse, after: number): EventPage {
  let text = '';
  let last = after;
  const rows = sql.exec(
    `SELECT first, events FROM events WHERE response = ? AND first + count > ? ORDER BY first LIMIT ?`,
    ...[response.seq, after + 1, PAGE_ROWS],
  );
  for (const { first, events } of rows) {
    for (const [index, event] of unpacked(JSON.parse(String(events))).entries()) {
      const sequence_number = Number(first) + index;
      if (sequence_number <= after) continue;
      text += eventText({ type: event.type, sequence_number, ...event });
      last = sequence_number;
    }
    if (text.length >= PAGE_CHARACTERS) break;
  }
  return { text, last, is_end: last + 1 >= countEvents(sql, response) };
}

/** Returns all stored events, without their numbers. */
export function allEvents(sql: Sql, { seq }: StoredResponse): Fields[] {
  const rows = sql.exec(`SELECT events FROM events WHERE response = ? ORDER BY first`, seq);
  return rows.flatMap(({ events }) => unpacked(JSON.parse(String(events))));
}

export function dropEvents(sql: Sql, { seq }: StoredResponse): void {
  sql.exec(`DELETE FROM events WHERE response = ?`, seq);
  sql.exec(`UPDATE responses SET events_until = NULL WHERE seq = ?`, seq);
}

function packed(event: Fields, before: Fields | undefined): Fields | string {
  const { sequence_number: _, ...rest } = event;
  if (typeof rest.delta !== 'string' || typeof before?.delta !== 'string') return rest;
  const { sequence_number: __, ...other } = before;
  const isSame = JSON.stringify({ ...other, delta: rest.delta }) === JSON.stringify(rest);
  return isSame ? rest.delta : rest;
}

function unpacked(stored: StoredEvents): Fields[] {
  const events: Fields[] = [];
  for (const one of stored) events.push(typeof one === 'string' ? { ...events.at(-1), delta: one } : one);
  return events;
}
