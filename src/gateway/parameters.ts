import * as z from 'zod';
import { isJobState, JOB_STATES, parseValue } from '../protocol/index.ts';
import type { JobListWanted, JobPage } from '../queue/rpc.ts';
import { HttpError } from './errors.ts';
import type { RouteRow } from './openapi/document.ts';

/** The most rows in a page of a list. */
export const MOST_PAGE_ROWS = 500;

/**
 * Returns the error for a parameter of a query or form that cannot be used.
 * @param message without its full stop: "limit: expected ..."
 */
export function invalidParameter(message: string): HttpError {
  return new HttpError(400, `${message}.`, 'invalid_parameter');
}

/** @throws HttpError 400 where the text is no whole number within the bounds */
export function wholeNumber(name: string, text: string, least: number, most: number): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw invalidParameter(`${name}: expected a whole number from ${least} to ${most}`);
}

/** @throws HttpError 400 where the text is neither `true` nor `false` */
export function trueOrFalse(name: string, text: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  throw invalidParameter(`${name}: expected true or false`);
}

/** @throws HttpError 400 for a name that a route does not take: a misspelt filter would show everything */
export function rejectUnknownParameters(query: Record<string, string>, names: readonly string[]): void {
  const unknown = Object.keys(query).find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw invalidParameter(`${unknown}: there is no such parameter; there are ${names.join(', ')}`);
}

/** Returns the rows of a page: as many as `limit` says, 50 where it is left out. @throws HttpError 400 */
export function pageRows(limit: string | undefined): number {
  return limit === undefined ? 50 : wholeNumber('limit', limit, 1, MOST_PAGE_ROWS);
}

/** @throws HttpError 400 for a text that is not the "next" of a list whose pages begin after a number */
export function numberOfCursor(cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw invalidCursor();
}

export function invalidCursor(): HttpError {
  return invalidParameter('cursor: expected the "next" of the page before');
}

/** Returns the epoch ms of a time in ISO form, or in seconds since the epoch. @throws HttpError 400 */
export function timeOf(name: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const ms = /^\d{1,11}(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  if (!Number.isFinite(ms)) {
    throw invalidParameter(`${name}: expected a time such as 2026-01-31T12:00:00Z, or seconds since 1970`);
  }
  return Math.round(ms);
}

/** The parameters by which a request's query selects stored jobs. */
export const FILTER_PARAMETERS = {
  state: { description: 'Only those in this state.', enum: JOB_STATES },
  config_id: { description: 'Only those of this pool.' },
  job_type: { description: 'Only those of this type.' },
  tenant: { description: 'Only those of this tenant.' },
  worker_id: { description: 'Only those that this worker had last.' },
  error_code: { description: 'Only those that ended with this error.' },
  id_prefix: { description: 'Only those whose ids begin so, in the order of their ids.' },
  since: { description: 'Submitted then or later: ISO time, or epoch seconds.' },
  until: { description: 'Submitted before: ISO time, or epoch seconds.' },
} satisfies RouteRow['query'];

/** @throws HttpError 400 */
export function wantedOf(
  query: Record<string, string>,
  viewer: string | null,
): Omit<JobListWanted, 'before' | 'limit'> {
  const given = (name: keyof typeof FILTER_PARAMETERS) => query[name] ?? null;
  return {
    filter: {
      state: stateOf(query.state),
      config_id: given('config_id'),
      job_type: given('job_type'),
      tenant: given('tenant'),
      worker_id: given('worker_id'),
      error_code: given('error_code'),
    },
    id_prefix: query.id_prefix || null,
    since: timeOf('since', query.since),
    until: timeOf('until', query.until),
    viewer,
  };
}

function stateOf(text: string | undefined): string | null {
  if (text === undefined || isJobState(text)) return text ?? null;
  throw invalidParameter('state: expected pending, leased, succeeded, failed, cancelled or expired');
}

const Place = z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]);
const PlaceById = z.tuple([z.string().regex(/^[\w.:-]{1,128}$/)]);

export function cursorOf(place: NonNullable<JobPage['next']>): string {
  const parts = 'id' in place ? [place.id] : [place.created_at, place.seq];
  return btoa(JSON.stringify(parts)).replaceAll('=', '');
}

export function placeOf(cursor: string | undefined): JobPage['next'] {
  if (cursor === undefined) return null;
  try {
    const parts = JSON.parse(atob(cursor));
    const place = parseValue(Place, parts);
    if (place.ok) return { created_at: place.value[0], seq: place.value[1] };
    const byId = parseValue(PlaceById, parts);
    if (byId.ok) return { id: byId.value[0] };
  } catch {
    // A cursor that cannot be decoded is rejected below.
  }
  throw invalidCursor();
}

/** Returns a page in the form of OpenAI's lists. */
export function listOf<T extends { id: string }>(data: readonly T[], has_more: boolean) {
  return {
    object: 'list' as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more,
  };
}
