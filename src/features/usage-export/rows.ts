import { withCost } from '../../gateway/usage-cost.ts';
import { REPORTED_AMOUNTS, USAGE_KEYS, type UsageSum } from '../../queue/rpc.ts';
import type { SpentOnDay } from '../../scheduler/rpc.ts';

/** The columns of names; the others are numbers. */
const NAMES = ['kind', 'day', ...USAGE_KEYS] as const;
const NUMBERS = [...REPORTED_AMOUNTS, 'slot_seconds', 'unpriced_slot_seconds', 'dollars'] as const;
/** The columns of an export, in their order. */
export const COLUMNS = [...NAMES, ...NUMBERS] as const;

/**
 * A row of an export. `kind` is `usage` for what jobs used and `idle` for what launched machines cost beyond that,
 * which has only a day, a pool and dollars. `day` is a day of UTC, `2026-11-01`. `dollars` is the cost of the slot time
 * whose price is known; null: none of it is. `unpriced_slot_seconds` is the part of `slot_seconds` that is not in it.
 */
export type ExportRow = Record<(typeof NAMES)[number], string | null> &
  Record<(typeof NUMBERS)[number], number | null>;

const NOTHING = Object.fromEntries(COLUMNS.map((name) => [name, null])) as ExportRow;

/** Returns the row of what was used on a day. @param sum by all keys */
export function usageRow(sum: UsageSum): ExportRow {
  const { start, slot_ms, unpriced_slot_ms, ...rest } = withCost(sum);
  const row = {
    ...rest,
    kind: 'usage',
    day: dayOf(start),
    slot_seconds: slot_ms / 1000,
    unpriced_slot_seconds: unpriced_slot_ms / 1000,
  } as ExportRow;
  return Object.fromEntries(COLUMNS.map((name) => [name, row[name]])) as ExportRow;
}

/** Returns the row of what launched machines of a pool cost on a day beyond what was used of them. */
export function idleRow({ day, config_id, dollars }: SpentOnDay): ExportRow {
  return { ...NOTHING, kind: 'idle', day: dayOf(day), config_id, dollars };
}

/** @param start epoch s */
function dayOf(start: number): string {
  return new Date(start * 1000).toISOString().slice(0, 10);
}

/** The forms of an export. */
export const FORMATS = {
  /** CSV of RFC 4180: a row of names first, lines that end in CR LF. */
  csv: {
    type: 'text/csv; charset=utf-8; header=present',
    head: `${COLUMNS.join(',')}\r\n`,
    line: (row: ExportRow) => `${COLUMNS.map((name) => csvCell(name, row[name])).join(',')}\r\n`,
  },
  /** A JSON object a line. */
  jsonl: {
    type: 'application/x-ndjson',
    head: '',
    line: (row: ExportRow) => `${JSON.stringify(row)}\n`,
  },
} as const;
export type ExportFormat = keyof typeof FORMATS;

/** The beginnings of a cell that spreadsheets take for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/**
 * Returns a cell. An unknown number is empty. A name that a spreadsheet would take for a formula gets an apostrophe
 * before it: a token's name and a model's are chosen by others than the reader.
 */
function csvCell(column: string, value: string | number | null): string {
  if (value === null) return '';
  // Nine decimals, since small numbers would be written with an exponent: 1e-7.
  if (typeof value === 'number') return column === 'dollars' ? value.toFixed(9) : String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
