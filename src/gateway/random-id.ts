import { randomText } from '../durable/random-text.ts';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 62^24 is more than 2^142: such an id cannot be guessed. */
const LENGTH = 24;

/** An id as OpenAI's are: a prefix that says what it is of, and random letters and digits. */
export function randomId(prefix: string): string {
  return prefix + randomText(LENGTH, DIGITS);
}
