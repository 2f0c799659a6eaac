import type { Sql } from '../durable/ports.ts';
import { activeBatches } from './batch-table.ts';
import { lineCounts } from './line-table.ts';
import type { Backlog } from './rpc.ts';

const MINUTE_MS = 60_000;

/** Sums up the open lines of batches by model and window; windows that end within the same minute are one. */
export function backlog(sql: Sql): Backlog[] {
  const windowEnds = new Map<number, number>();
  for (const { seq, batch } of activeBatches(sql)) {
    if (batch.status === 'in_progress') windowEnds.set(seq, batch.expires_at);
  }
  const found = new Map<string, Backlog>();
  for (const { batch, model, waiting, submitted } of lineCounts(sql)) {
    const window_ends_at = windowEnds.get(batch);
    if (window_ends_at === undefined) continue;
    const key = `${Math.floor(window_ends_at / MINUTE_MS)} ${model}`;
    const known = found.get(key) ?? { model: model || null, lines: 0, in_queue: 0, window_ends_at };
    found.set(key, {
      ...known,
      lines: known.lines + waiting + submitted,
      in_queue: known.in_queue + submitted,
      window_ends_at: Math.min(known.window_ends_at, window_ends_at),
    });
  }
  return [...found.values()].sort((one, other) => one.window_ends_at - other.window_ends_at);
}
