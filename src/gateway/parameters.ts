import { HttpError } from './errors.ts';

/** The most rows in a page of a list. */
export const MOST_PAGE_ROWS = 500;

/**
 * Returns the error for a parameter of a query or form that cannot be used. @param message without its full stop:
 * "limit: expected ..."
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
