import { HttpError } from './errors.ts';

/** A parameter of a query or form that cannot be used. @param message without its full stop: "limit: expected ..." */
export function invalidParameter(message: string): HttpError {
  return new HttpError(400, `${message}.`, 'invalid_parameter');
}

/** @throws HttpError 400 where the text is no whole number within the bounds */
export function wholeNumber(name: string, text: string, least: number, most: number): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw invalidParameter(`${name}: expected a whole number from ${least} to ${most}`);
}
