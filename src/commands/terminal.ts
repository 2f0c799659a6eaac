import { stripVTControlCharacters } from 'node:util';
import { printable } from '../protocol/text.ts';

/**
 * Commands print with these functions, for people and as JSON, so that names and messages from elsewhere cannot steer
 * the terminal.
 */

/** Prints lines on stdout. */
export function print(text: string): void {
  process.stdout.write(`${printable(text)}\n`);
}

/** Prints lines on stderr, for commands whose stdout another program reads. */
export function printNote(text: string): void {
  process.stderr.write(`${printable(text)}\n`);
}

/** The size of a terminal, which tables of text must fit. */
export interface Screen {
  columns: number;
  rows: number;
  hasColours: boolean;
}

export interface Column<Row> {
  title: string;
  text(row: Row, now: number): string;
  /** Whether the column has text rather than numbers, and is aligned to the left. */
  isLeft?: boolean;
  /** If columns do not fit, those with the highest number are dropped first; 0 is never dropped. */
  drop: number;
  colour?(row: Row): Colour;
}

export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  now: number,
  screen: Screen,
): string[] {
  const filled = columns.map((column) => {
    const cells = rows.map((row) => clean(column.text(row, now)));
    return { column, cells, width: Math.max(column.title.length, ...cells.map(({ length }) => length)) };
  });
  const shown = fitting(filled, screen.columns);
  const line = (cell: (one: (typeof filled)[number]) => string) => shown.map(cell).join('  ').trimEnd();
  const padded = ({ column, width }: (typeof filled)[number], text: string) =>
    column.isLeft ? text.padEnd(width) : text.padStart(width);
  return [
    colour(
      screen,
      'quiet',
      line((one) => padded(one, one.column.title)),
    ),
    ...rows.map((row, index) =>
      line((one) => {
        const text = padded(one, one.cells[index] ?? '');
        return one.column.colour ? colour(screen, one.column.colour(row), text) : text;
      }),
    ),
  ];
}

/** Drops columns until the rest fits; the last one may be cut. */
function fitting<Filled extends { column: { drop: number }; width: number }>(
  all: Filled[],
  columns: number,
): Filled[] {
  let shown = all;
  while (shown.reduce((sum, { width }) => sum + Math.min(width, 60) + 2, -2) > columns) {
    const next = Math.max(...shown.map(({ column }) => column.drop));
    if (next === 0) return shown;
    const at = shown.findLastIndex(({ column }) => column.drop === next);
    shown = shown.filter((_, index) => index !== at);
  }
  return shown;
}

export type Colour = 'good' | 'busy' | 'bad' | 'quiet';

const ESCAPE = '\x1b';
const RESET = `${ESCAPE}[0m`;

/** The SGR codes of the terminal's own sixteen colours, so that its theme decides. */
const CODES: Record<Colour, number> = { good: 32, busy: 33, bad: 31, quiet: 2 };

export function colour({ hasColours }: Screen, name: Colour, text: string): string {
  return hasColours ? `${ESCAPE}[${CODES[name]}m${text}${RESET}` : text;
}

/** Cleans names and errors, which come from elsewhere: they may neither steer the terminal nor begin another line. */
export function clean(text: string): string {
  return printable(text.replaceAll(/[\t\n\r]/g, ' '));
}

const SEQUENCE_OR_CHARACTER = new RegExp(`${ESCAPE}\\[\\d+m|.`, 'gsu');

/** Cuts a line to this many characters on the screen; sequences of colour take none. */
export function cut(line: string, columns: number): string {
  if (stripVTControlCharacters(line).length <= columns) return line;
  let width = 0;
  let result = '';
  for (const [part] of line.matchAll(SEQUENCE_OR_CHARACTER)) {
    if (!part.startsWith(ESCAPE)) width += 1;
    if (width === columns) return `${result}…${line.includes(ESCAPE) ? RESET : ''}`;
    result += part;
  }
  return result;
}

/** Matches a number in a cell: `3`, `2.07–3.00`, `2.07 or more`, or the sign for an unknown one. */
const NUMBER = /^[\d.–?]+(?: or more)?$/;

/**
 * Returns rows with columns as wide as their widest cell; the first row has the titles. Numbers are aligned to the
 * right.
 */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const [head = [], ...body] = rows;
  const widths = head.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const isNumber = head.map((_, at) => body.every((row) => NUMBER.test(row[at] ?? '')));
  return rows.map((row) =>
    row
      .map((cell, at) => (isNumber[at] ? cell.padStart(widths[at]!) : cell.padEnd(widths[at]!)))
      .join('  ')
      .trimEnd(),
  );
}
