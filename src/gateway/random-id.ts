import { randomText } from '../durable/random-text.ts';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** The digits of an id: 62^24 is more than 2^142, so an id cannot be guessed. */
const LENGTH = 24;

/** Returns an id in OpenAI's form: a prefix that names the kind of object, then random letters and digits. */
export function randomId(prefix: string): string {
  return prefix + randomText(LENGTH, DIGITS);
}
