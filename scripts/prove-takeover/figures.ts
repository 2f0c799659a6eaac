import { type FigureRow, tableOf } from '../../test/soak/figures.ts';
import type { Figures } from './run.ts';

/** Returns the table of what all runs measured. */
export function figuresOf(runs: readonly Figures[]): string {
  const sum = (of: (figures: Figures) => number) => runs.reduce((total, figures) => total + of(figures), 0);
  const faults = new Map<string, number>();
  for (const run of runs)
    for (const [name, count] of Object.entries(run.faults)) faults.set(name, (faults.get(name) ?? 0) + count);
  const rows: FigureRow[] = [
    ['runs', runs.length],
    ['calls of clients', sum(({ operations }) => operations)],
    ['jobs acknowledged', sum(({ acknowledged }) => acknowledged)],
    ['entries in the journal', sum(({ entries }) => entries)],
    ['chats answered whole', sum(({ chats }) => chats.whole)],
    ['chats that broke off after they had begun', sum(({ chats }) => chats.broken)],
    ['chats refused, or lost before they began', sum(({ chats }) => chats.refused)],
    ...[...faults].map(([name, count]): FigureRow => [`fault ${name}`, count]),
  ];
  for (const how of ['kill', 'term', 'stop', 'partition']) {
    const times = runs.flatMap(({ takeovers }) => takeovers[how] ?? []);
    if (times.length > 0) rows.push([`takeover (${how}), ms`, spread(times)]);
  }
  rows.push(['lag of the follower, ms', spread(runs.flatMap(({ lags }) => lags))]);
  rows.push(['jobs acknowledged in a second without faults', spread(runs.flatMap(({ rates }) => rates))]);
  return tableOf(rows);
}

function spread(values: readonly number[]): string {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
  return `p50 ${at(0.5)}, p99 ${at(0.99)}, most ${at(1)}, of ${sorted.length}`;
}
