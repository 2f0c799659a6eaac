import { printable } from '../protocol/text.ts';

/** Commands print with these, for people and as JSON: names and messages from elsewhere steer no terminal. */

/** Prints lines on stdout. */
export function print(text: string): void {
  process.stdout.write(`${printable(text)}\n`);
}

/** Prints lines on stderr, where another program reads stdout. */
export function printNote(text: string): void {
  process.stderr.write(`${printable(text)}\n`);
}
