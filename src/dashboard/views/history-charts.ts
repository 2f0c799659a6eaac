import type { FleetHistory } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';

/** A chart of a history, with the values from which it is drawn. */
interface CourseChart {
  title: string;
  /** The lines' names and values. */
  lines: { name: string; values: (number | null)[] }[];
  format(value: number | null): string;
  most?: number;
  isWhole?: boolean;
  /** The number of measurements, for percentiles. */
  n?: number;
}

const PERCENTILES = ['p50', 'p95', 'p99'] as const;

/** Rates and counts of the current step are shown only once it has lasted this many ms. */
const SHOWN_AFTER_MS = 30_000;

/**
 * Returns the charts of the fleet, a pool or a model; a chart without a series in the history is left out.
 * @param now epoch ms of the server's clock: only the part of the newest step that has passed counts
 */
export function chartsOf({ series, at, step_ms }: FleetHistory, now: number): CourseChart[] {
  const of = (name: string) => series[name] ?? at.map(() => null);
  const passed = Math.min(step_ms, now - (at.at(-1) ?? now));
  const isShown = passed === step_ms || passed >= SHOWN_AFTER_MS;
  /** Returns a series without the count of a step that has just begun, which would look like a fall. */
  const counted = (key: string) => (isShown ? of(key) : [...of(key).slice(0, -1), null]);
  const has = (name: string) => series[name] !== undefined;
  const line = (name: string, key: string) => ({ name, values: of(key) });
  const aSecond = (name: string, key: string) => ({
    name,
    values: counted(key).map((count, i) =>
      count === null ? null : (count * 1000) / (i === at.length - 1 ? passed : step_ms),
    ),
  });
  const times = (title: string, key: string): CourseChart => ({
    title,
    lines: PERCENTILES.map((p) => line(p, `${key}_ms_${p}`)),
    n: of(`${key}_ms_n`).reduce<number>((sum, n) => sum + (n ?? 0), 0),
    format: format.duration,
  });
  return [
    ...(has('waiting')
      ? [
          {
            title: 'Waiting and running',
            lines: [
              line('waiting, at most', 'waiting_most'),
              line('running', 'running'),
              line('slots', 'slots'),
            ],
            format: format.count,
            isWhole: true,
          },
        ]
      : []),
    times('Time to a slot', 'wait'),
    times('Time to the first token', 'first_token'),
    times('Between tokens', 'per_token'),
    {
      title: 'Requests a second',
      lines: [...(has('submitted') ? [aSecond('came', 'submitted')] : []), aSecond('succeeded', 'succeeded')],
      format: format.perSecond,
    },
    {
      title: 'Not succeeded',
      lines: ['failed', 'expired', 'rejected', 'cancelled'].map((key) => ({
        name: key,
        values: counted(key),
      })),
      format: format.count,
      isWhole: true,
    },
    {
      title: 'Tokens a second',
      lines: [aSecond('in', 'tokens_in'), aSecond('out', 'tokens_out')],
      format: format.perSecond,
    },
    {
      title: 'Prompt tokens from the cache',
      lines: [{ name: 'cached', values: shares(of('tokens_cached'), of('tokens_in')) }],
      format: format.percent,
      most: 1,
    },
    ...(has('ready_workers')
      ? [
          {
            title: 'Workers by state',
            lines: ['ready', 'paused', 'starting', 'draining', 'failed'].map((state) =>
              line(state === 'failed' ? 'failed or lost' : state, `${state}_workers`),
            ),
            format: format.count,
            isWhole: true,
          },
          {
            title: 'Preemptions',
            lines: [{ name: 'put back to wait', values: counted('preemptions') }],
            format: format.count,
            isWhole: true,
          },
        ]
      : []),
    ...(of('price_per_hour').some((price) => (price ?? 0) > 0)
      ? [
          {
            title: 'Machines',
            lines: [line('cost', 'price_per_hour')],
            format: format.price,
          },
        ]
      : []),
  ];
}

/** Returns the shares of parts in wholes; null: nothing came. */
function shares(parts: (number | null)[], wholes: (number | null)[]): (number | null)[] {
  return parts.map((part, i) => (wholes[i] ? (part ?? 0) / wholes[i] : null));
}
