import { remainder, withSaidIds } from '../remainder.ts';
import { endedResponse, withOwnFields } from '../response-object.ts';
import { type ResponseEvent, saidOf } from '../said.ts';
import { type Fields, usageOf } from '../types.ts';
import * as chains from './chains.ts';
import { allEvents, appendEvents, countEvents } from './event-log.ts';
import { isOutput, type JobEnd } from './job-end.ts';
import { findResponse, type StoredResponse, saveResponse } from './tables.ts';

/**
 * The steps of a response in the background, each one commit. None changes a response that is final, but for the usage
 * of one whose job was ended while it ran, so a step that comes late or twice changes nothing.
 */

/** The number of events before the first of the output. */
const BEGINNING = 3;
/** How long the events of a response can be read after its end, ms. */
const EVENTS_KEPT_MS = 15 * 60_000;

/** Returns a response that is not final; null: there is none. */
export function running({ sql }: chains.Responses, id: string): StoredResponse | null {
  const row = findResponse(sql, id);
  return row?.ended_at === null ? row : null;
}

/** Writes the first events of a response that streams. */
export function begin(on: chains.Responses, id: string): void {
  const row = running(on, id);
  if (!row?.is_streamed) return;
  appendEvents(on.sql, row, beginningOf(row).slice(0, -1));
}

/** Notes that a worker has a response. @param fence the token of the attempt */
export function attempt(on: chains.Responses, id: string, fence: number): void {
  const row = running(on, id);
  if (row === null || row.has_output) return;
  saveResponse(on.sql, { ...row, fence, status: 'in_progress' });
  if (row.is_streamed) appendEvents(on.sql, row, beginningOf(row).slice(countEvents(on.sql, row)));
}

/**
 * Stores output of an attempt, unless another attempt has begun since.
 * @param number how many events of its output the attempt has made with these
 * @returns whether any of them is new
 */
export function output(
  on: chains.Responses,
  id: string,
  fence: number,
  events: readonly Fields[],
  number: number,
): boolean {
  if (Number(running(on, id)?.fence) < fence) attempt(on, id, fence);
  const row = running(on, id);
  if (row?.fence !== fence || events.length === 0) return false;
  const stored = countEvents(on.sql, row) - BEGINNING;
  const fresh = events.slice(Math.max(0, stored - (number - events.length)));
  if (fresh.length === 0) return false;
  appendEvents(on.sql, row, fresh);
  if (!row.has_output) saveResponse(on.sql, { ...row, has_output: true });
  return true;
}

/**
 * Ends a response as its job has ended. One whose answer cannot be stored, since its engine wrote it in no form of this
 * API or it is too long, has failed: it would never end otherwise.
 * @param fence the token of the attempt that ended the job
 * @returns why the answer could not be stored; null: it is
 * @throws what is no fault of the answer
 */
export function end(on: chains.Responses, id: string, wanted: JobEnd, fence = 0): Error | null {
  try {
    on.transaction(() => settle(on, id, wanted, fence));
    return null;
  } catch (error) {
    if (OF_THE_DATABASE.test(String(error))) throw error;
    on.transaction(() => settle(on, id, NOT_STORABLE, fence));
    return error as Error;
  }
}

/** Matches the errors of a database that has a fault; that a value is too long for a row is none. */
const OF_THE_DATABASE = /SQLITE_(?!TOOBIG)/;

/** Returns whether an error says that a value is too long for a row. */
export function isTooLong(error: unknown): boolean {
  return /SQLITE_TOOBIG|too big/.test(String(error));
}

/**
 * Where output of an earlier attempt was given out, the answer of the last one cannot go on from it, and the response
 * has failed.
 */
function settle(on: chains.Responses, id: string, wanted: JobEnd, fence: number): void {
  const row = running(on, id);
  if (row === null) return correctUsage(on, id, wanted);
  const isMixed = row.has_output && wanted.kind === 'response' && fence !== row.fence;
  const events = row.is_streamed ? (allEvents(on.sql, row) as ResponseEvent[]) : [];
  const beginning =
    row.is_streamed && wanted.kind === 'response' ? beginningOf(row).slice(events.length) : [];
  const stored = [...events, ...beginning];
  const rest = isMixed ? null : row.is_streamed ? restOf(stored, wanted) : [];
  const ending = rest === null ? BROKE_OFF : wanted;
  const said = saidOf([...stored, ...(rest ?? [])]);
  const response = withSaidIds(said, {
    ...responseOf(row, ending, said.outputNow('incomplete')),
    ...doneAt(ending, on),
  });
  if (row.is_streamed)
    appendEvents(on.sql, row, [...beginning, ...(rest ?? []), ...lastEvent(ending, response)]);
  const events_until = row.is_streamed ? on.now() + EVENTS_KEPT_MS : null;
  chains.end(on, { ...row, events_until }, endedResponse(response));
}

export const NO_JOB: FailedEnd = {
  kind: 'failed',
  error: { code: 'server_error', message: 'The queue has no job for this response.' },
};

const NOT_STORABLE: FailedEnd = {
  kind: 'failed',
  error: {
    code: 'server_error',
    message: "The engine's answer cannot be stored: it is too long, or not in the form of the Responses API.",
  },
};

/** Writes the usage of a response whose job was ended while it ran: the worker reports it once its engine has stopped. */
function correctUsage({ sql }: chains.Responses, id: string, wanted: JobEnd): void {
  const row = findResponse(sql, id);
  if (row?.status !== wanted.kind || wanted.usage === undefined) return;
  const body = JSON.stringify({ ...JSON.parse(row.body), usage: usageOf(wanted.usage) });
  if (body !== row.body) saveResponse(sql, { ...row, body });
}

type FailedEnd = Extract<JobEnd, { kind: 'failed' }>;

export const BROKE_OFF: FailedEnd = {
  kind: 'failed',
  error: {
    code: 'server_error',
    message: 'The engine or its worker ended in the middle of the response. Ask again.',
  },
};

/**
 * Returns the events of the output that are missing: those that the engine made behind the stored ones, or made from
 * the response where the engine's own are not known.
 * @returns null if what was stored is no beginning of the response
 */
function restOf(stored: readonly ResponseEvent[], ending: JobEnd): ResponseEvent[] | null {
  if (ending.kind !== 'response') return [];
  const { events, response } = ending;
  if (events.length > 0) return events.slice(Math.max(0, stored.length - BEGINNING)) as ResponseEvent[];
  return remainder(saidOf(stored), response)?.filter(({ type }) => isOutput(type)) ?? null;
}

/** Returns the last event of a stream. One that is cancelled has none: there is no type for it. */
function lastEvent({ kind }: JobEnd, response: Fields): Fields[] {
  return kind === 'cancelled' ? [] : [{ type: `response.${String(response.status)}`, response }];
}

function begunOf({ body }: StoredResponse): Fields {
  return JSON.parse(body) as Fields;
}

/** Returns the events before the first of the output. */
function beginningOf(row: StoredResponse): ResponseEvent[] {
  const event = (name: string, status: string) => ({
    type: `response.${name}`,
    response: { ...begunOf(row), status, output: [] },
  });
  return [event('created', 'queued'), event('queued', 'queued'), event('in_progress', 'in_progress')];
}

function responseOf(row: StoredResponse, ending: JobEnd, output: Fields[]): Fields {
  const begun = begunOf(row);
  if (ending.kind === 'response') return withReason(withOwnFields(ending.response, begun));
  const error = ending.kind === 'failed' ? ending.error : null;
  const usage = ending.usage === undefined ? null : usageOf(ending.usage);
  return { ...begun, status: ending.kind, error, usage, output };
}

/** Returns a response of an engine that says why it is no whole one; an error gets one of OpenAI's codes. */
function withReason(response: Fields): Fields {
  const { status, error, incomplete_details } = response;
  if (status === 'incomplete')
    return { ...response, incomplete_details: incomplete_details ?? { reason: 'max_output_tokens' } };
  if (status !== 'failed') return response;
  const { message = 'The engine ended the response as failed.' } = Object(error) as Fields;
  return { ...response, error: { code: 'server_error', message } };
}

function doneAt(ending: JobEnd, { now }: chains.Responses): Fields {
  const isCompleted = ending.kind === 'response' && ending.response.status === 'completed';
  return isCompleted ? { completed_at: Math.floor(now() / 1000) } : {};
}
