import { printable } from '../protocol/text.ts';

/**
 * Commands print with these functions, for people and as JSON, so that names and messages from elsewhere cannot steer
 * the terminal.
 */

/** Prints lines on stdout. */
export function print(text: string): void {
  process.stdout.write(`${printable(text)}\n`);
}

/** Prints lines on stderr, where another program reads stdout. */
export function printNote(text: string): void {
  process.stderr.write(`${printable(text)}\n`);
}
