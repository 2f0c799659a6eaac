import { printable } from '../protocol/text.ts';

/** What commands print, for people and as JSON: names and messages from elsewhere in it steer no terminal. */

/** Lines on stdout. */
export function print(text: string): void {
  process.stdout.write(`${printable(text)}\n`);
}

/** Lines on stderr, where another program reads stdout. */
export function printNote(text: string): void {
  process.stderr.write(`${printable(text)}\n`);
}
