import type { FleetHistory } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import type { Series } from '../controls/series.ts';

/** A chart of a history, with the values from which it is drawn. */
interface CourseChart {
  title: string;
  /** A short text behind the title. */
  note?: string;
  at: readonly number[];
  series: Series[];
  isStacked?: boolean;
  format(value: number | null): string;
  most?: number;
  isWhole?: boolean;
  /** The text in place of a chart in which all is 0. */
  none?: string;
  /** Whether it is one of those in which marks of workers and machines stand. */
  hasMarks?: boolean;
}

/** The percentiles of a chart differ by weight, since they never cross: the median is the heaviest. */
const PERCENTILES = { p50: 'line', p95: 'thin', p99: 'dotted' } as const;

/** The states of workers, the first at the bottom, in the colours that their marks have. */
const STATES = {
  ready: 'good',
  starting: 'work',
  draining: 'drain',
  paused: 'warn',
  failed: 'bad',
} as const;

/** The ends of requests that did not succeed, the first at the bottom. */
const UNSUCCESSFUL = { failed: 'bad', expired: 'warn', rejected: 'drain', cancelled: 'dim' } as const;

/**
 * Returns the charts of the fleet, a pool or a model; a chart without a series in the history is left out.
 * @param now epoch ms of the server's clock: only the part of the newest step that has passed counts
 */
export function chartsOf(history: FleetHistory, now: number): CourseChart[] {
  const { series, at, step_ms } = history;
  const of = (name: string) => series[name] ?? at.map(() => null);
  const has = (name: string) => series[name] !== undefined;
  const passed = Math.min(step_ms, now - (at.at(-1) ?? now));
  /** Returns how many came a second; a newest step of which little has passed has no value, rather than a low one. */
  const aSecond = (key: string) =>
    of(key).map((count, i) => {
      const ms = i === at.length - 1 ? passed : step_ms;
      return count === null || ms < leastPassed(step_ms) ? null : (count * 1000) / ms;
    });
  const times = (title: string, key: string): CourseChart => ({
    title,
    note: `${format.many(of(`${key}_ms_n`).reduce<number>((sum, n) => sum + (n ?? 0), 0))} measured`,
    at,
    series: Object.entries(PERCENTILES).map(([p, draw]) => ({ name: p, values: of(`${key}_ms_${p}`), draw })),
    format: format.duration,
  });
  const counts = (title: string, none: string, parts: Record<string, Series['tone']>): CourseChart => {
    const bars = barsOf(history, Object.keys(parts));
    return {
      title,
      // A whole number of minutes has no seconds.
      note: `in ${format.duration(bars.step_ms).replace(' 00 s', '')}`,
      at: bars.at,
      series: Object.entries(parts).map(([name, tone]) => ({
        name,
        values: bars.series[name]!,
        draw: 'bar',
        tone,
      })),
      isStacked: true,
      format: format.count,
      isWhole: true,
      none,
    };
  };
  return [
    ...(has('waiting')
      ? [
          {
            title: 'Waiting and running',
            at,
            series: [
              { name: 'running', values: of('running'), draw: 'area' as const },
              { name: 'slots', values: of('slots'), draw: 'dotted' as const, tone: 'dim' as const },
              { name: 'waiting', values: of('waiting_most'), tone: 'warn' as const },
            ],
            format: format.count,
            isWhole: true,
            hasMarks: true,
          },
        ]
      : []),
    times('Time to a slot', 'wait'),
    times('Time to the first token', 'first_token'),
    times('Between tokens', 'per_token'),
    {
      title: 'Requests a second',
      at,
      series: [
        { name: 'succeeded', values: aSecond('succeeded'), draw: 'area' },
        ...(has('submitted')
          ? [{ name: 'came', values: aSecond('submitted'), draw: 'thin' as const, tone: 'dim' as const }]
          : []),
      ],
      format: format.perSecond,
    },
    counts('Not succeeded', 'Every request succeeded.', UNSUCCESSFUL),
    {
      title: 'Tokens a second',
      at,
      series: [
        { name: 'out', values: aSecond('tokens_out'), draw: 'area' },
        { name: 'in', values: aSecond('tokens_in'), draw: 'thin', tone: 'dim' },
      ],
      format: format.perSecond,
    },
    {
      title: 'Prompt tokens from the cache',
      at,
      series: [{ name: 'cached', values: shares(of('tokens_cached'), of('tokens_in')), draw: 'area' }],
      format: format.percent,
      most: 1,
    },
    ...(has('ready_workers')
      ? [
          {
            title: 'Workers by state',
            at,
            series: Object.entries(STATES).map(([state, tone]) => ({
              name: state === 'failed' ? 'failed or lost' : state,
              values: of(`${state}_workers`),
              draw: 'area' as const,
              tone,
            })),
            isStacked: true,
            format: format.count,
            isWhole: true,
            hasMarks: true,
          },
          counts('Preemptions', 'None.', { preemptions: 'warn' }),
        ]
      : []),
    ...(of('price_per_hour').some((price) => (price ?? 0) > 0)
      ? [
          {
            title: 'Machines',
            at,
            series: [{ name: 'cost', values: of('price_per_hour'), draw: 'area' as const }],
            format: format.price,
          },
        ]
      : []),
  ];
}

/** Returns how much of a step must have passed before its rate says anything, ms: a twelfth of it, at least 30 s. */
function leastPassed(step_ms: number): number {
  return Math.min(step_ms, Math.max(30_000, step_ms / 12));
}

/** The lengths that a bar may have, ms, and the most bars of a chart. */
const BARS = [10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 12 * 3600, 24 * 3600].map((s) => s * 1000);
const MOST_BARS = 60;

/**
 * Returns counts in few enough bars to be told apart. A bar begins at a multiple of its length, so that it stays the same
 * while time goes on; its time is its middle.
 */
function barsOf({ series, at, step_ms }: FleetHistory, keys: string[]) {
  const span = at.length * step_ms;
  const length = BARS.find((ms) => ms >= step_ms && span / ms <= MOST_BARS) ?? BARS.at(-1)!;
  const places = [...Map.groupBy(at.keys(), (i) => Math.floor(at[i]! / length))];
  // The chart does not reach back to the beginning of the first bar.
  if (places.length > 1 && at[0]! % length !== 0) places.shift();
  return {
    step_ms: length,
    at: places.map(([bar]) => (bar + 0.5) * length),
    series: Object.fromEntries(
      keys.map((key) => [key, places.map(([, steps]) => total(steps.map((i) => series[key]?.[i] ?? null)))]),
    ),
  };
}

function total(counts: (number | null)[]): number | null {
  const known = counts.filter((count) => count !== null);
  return known.length === 0 ? null : known.reduce((sum, count) => sum + count, 0);
}

/** Returns the shares of parts in wholes; null: nothing came. */
function shares(parts: (number | null)[], wholes: (number | null)[]): (number | null)[] {
  return parts.map((part, i) => (wholes[i] ? (part ?? 0) / wholes[i] : null));
}
