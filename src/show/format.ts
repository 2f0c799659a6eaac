import { behindPlace } from '../protocol/ids.ts';
import * as spelled from '../protocol/text.ts';

/** The sign for an unknown value, for which 0 is never written. */
export const UNKNOWN = '–';

type Known<T> = T | null | undefined;

/** Returns a code, a kind or the name of a field in words: `worker_lost` is `worker lost`. */
export function inWords(code: string): string {
  return code.replaceAll('_', ' ');
}

/** Returns a duration such as `850 ms`, `4.2 s`, `1 min 05 s`, `12 min`, `3 h 12 min`, `2 d 4 h`. */
export function duration(ms: Known<number>): string {
  return ms == null || !Number.isFinite(ms) ? UNKNOWN : spelled.duration(ms);
}

/** Returns an age that ticks, in whole seconds at its smallest. */
export function age(ms: Known<number>): string {
  return ms == null || !Number.isFinite(ms) ? UNKNOWN : spelled.age(ms);
}

/** Returns a whole number such as `1,284`. */
export function count(value: Known<number>): string {
  return value == null || !Number.isFinite(value) ? UNKNOWN : Math.round(value).toLocaleString('en-US');
}

const SCALES: [number, string][] = [
  [1e12, ' T'],
  [1e9, ' G'],
  [1e6, ' M'],
  [1e3, ' k'],
  [1, ''],
];

/** Returns a number with three significant figures: `0.42`, `9.5`, `312`, `12.4 k`, `1.2 M`. */
export function amount(value: Known<number>): string {
  if (value == null || !Number.isFinite(value)) return UNKNOWN;
  const size = Math.abs(value);
  // A value that rounds to the next unit is shown in that unit.
  const [scale, unit] = SCALES.find(([from]) => size >= from * 0.9995) ?? [1, ''];
  return `${threeFigures(value / scale)}${unit}`;
}

function threeFigures(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95) return String(Math.round(value));
  return size < 0.005 ? '0' : value.toFixed(size >= 0.995 ? 1 : 2);
}

/** Returns the rate of a count in a span: `12.4 k/s`, `3.1/s`, and if that would be 0, `4/min` or `4/h`. */
export function rate(counted: Known<number>, seconds: number): string {
  if (counted == null || !Number.isFinite(counted)) return UNKNOWN;
  const aSecond = counted / seconds;
  if (aSecond === 0) return '0/s';
  if (aSecond >= 0.095) return `${amount(Math.round(aSecond * 10) / 10)}/s`;
  if (aSecond * 60 >= 0.95) return `${count(aSecond * 60)}/min`;
  return `${count(Math.max(1, aSecond * 3600))}/h`;
}

/** Returns a rate such as `3.4 k/s`. */
export function perSecond(value: Known<number>): string {
  return value == null ? UNKNOWN : `${amount(value)}/s`;
}

/** Returns a rate such as `3.4 k tokens/s`. */
export function tokenRate(aSecond: Known<number>): string {
  return `${amount(aSecond)} tokens/s`;
}

/** Returns a percentile and its number of measurements: `1.2 s, n 340`. */
export function percentile(ms: Known<number>, n: Known<number>): string {
  return ms == null ? UNKNOWN : `${duration(ms)}, n ${many(n)}`;
}

/** Returns a count of any size: `20`, `12.4 k`. */
export function many(value: Known<number>): string {
  return value != null && Math.abs(value) < 999.5 ? count(value) : amount(value);
}

/** Returns a size in bytes; GB are 10⁹ bytes. */
export function bytes(value: Known<number>): string {
  return value == null ? UNKNOWN : `${amount(value)}${Math.abs(value) >= 999.5 ? '' : ' '}B`;
}

/** Returns used and total memory, such as `61/80 GB`. */
export function memory(used: Known<number>, total: Known<number>): string {
  if (used == null && total == null) return UNKNOWN;
  const gigabytes = (value: Known<number>) => (value == null ? UNKNOWN : String(Math.round(value / 1e9)));
  return `${gigabytes(used)}/${gigabytes(total)} GB`;
}

/** Returns a share as a percentage. @param share from 0 to 1 */
export function percent(share: Known<number>): string {
  if (share == null || !Number.isFinite(share)) return UNKNOWN;
  // Neither 0 nor 100 is shown before it is true.
  const rounded = Math.round(share * 100);
  if (rounded === 100 && share < 1) return '99 %';
  if (rounded === 0 && share > 0) return '<1 %';
  return `${rounded} %`;
}

/** Returns a price such as `$1.84/h`. */
export function price(dollarsAnHour: Known<number>): string {
  return dollarsAnHour == null ? UNKNOWN : `$${dollarsAnHour.toFixed(2)}/h`;
}

/** Returns an amount such as `$12.40` or `<$0.01`. */
export function money(dollars: Known<number>): string {
  if (dollars == null || !Number.isFinite(dollars)) return UNKNOWN;
  return dollars > 0 && dollars < 0.005 ? '<$0.01' : `$${dollars.toFixed(2)}`;
}

/**
 * Returns a text as a sentence, with a capital letter and an end: refusals of the queue follow names elsewhere, and
 * begin in lower case. A first word that is a name, such as that of a field, stays as it is.
 */
export function asSentence(text: string): string {
  const begun = text.replace(/^[a-z]+(?= )/, (word) => word[0]!.toUpperCase() + word.slice(1));
  return /[\p{L}\p{N})"”’]$/u.test(begun) ? `${begun}.` : begun;
}

/** Returns the 12 characters by which an id differs from its neighbours, as lists show it. */
export function shortId(id: string): string {
  const rest = behindPlace(id);
  // The jobs of a batch differ by their lines alone.
  const line = /\.\d{1,7}$/.exec(rest)?.[0] ?? '';
  const short = rest.length > 12 ? `${rest.slice(0, 12 - line.length)}…${line}` : rest;
  return rest === id ? short : `…${short}`;
}

/**
 * Returns a time such as `14:02:11 CET`, preceded by its day if that is not today. @param timeZone left out: this
 * machine's
 */
export function exactTime(at: Known<number>, timeZone?: string, now = Date.now()): string {
  if (at == null) return UNKNOWN;
  const { day, time } = formatters(timeZone);
  const date = day.format(at);
  return date === day.format(now) ? time.format(at) : `${date} ${time.format(at)}`;
}

/** Returns a time such as `14:02:11 CET`. */
export function clockTime(at: number, timeZone?: string): string {
  return formatters(timeZone).time.format(at);
}

interface Formatters {
  day: Intl.DateTimeFormat;
  time: Intl.DateTimeFormat;
}

/** The formatters by time zone: making one takes longer than all else in drawing a row. */
const made = new Map<string | undefined, Formatters>();

function formatters(timeZone: string | undefined): Formatters {
  const known = made.get(timeZone);
  if (known) return known;
  const twoDigits = '2-digit';
  const formatters = {
    // Sweden writes days as ISO does.
    day: new Intl.DateTimeFormat('sv-SE', { timeZone, year: 'numeric', month: twoDigits, day: twoDigits }),
    time: new Intl.DateTimeFormat('en-GB', {
      timeZone,
      hour: twoDigits,
      minute: twoDigits,
      second: twoDigits,
      timeZoneName: 'short',
    }),
  };
  made.set(timeZone, formatters);
  return formatters;
}

/** Returns a count with its noun: `1 worker`, `3 workers`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function celsius(value: Known<number>): string {
  return value == null ? UNKNOWN : `${Math.round(value)} °C`;
}

export function watts(value: Known<number>): string {
  return value == null ? UNKNOWN : `${count(value)} W`;
}
