import type { FleetFrame, FleetView } from '../protocol/fleet-view.ts';

/**
 * Returns the view after a frame, or null where a frame before it is missing; rows that the frame does not name stay
 * the same objects.
 */
export function applyFrame(view: FleetView | null, frame: FleetFrame): FleetView | null {
  if (frame.type === 'full') return frame.view;
  if (!view) return null;
  const { version, at, summary, attention, scaling, gone } = frame;
  return {
    ...view,
    version,
    at,
    summary,
    attention,
    scaling,
    pools: replaced(view.pools, frame.pools, gone.pools, ({ config_id }) => config_id),
    workers: replaced(view.workers, frame.workers, gone.workers, ({ worker_id }) => worker_id),
    launches: replaced(view.launches, frame.launches, gone.launches, ({ id }) => id),
  };
}

function replaced<Row>(rows: Row[], changed: Row[], gone: string[], idOf: (row: Row) => string): Row[] {
  if (changed.length === 0 && gone.length === 0) return rows;
  const left = new Map(changed.map((row) => [idOf(row), row]));
  const removed = new Set(gone);
  const kept = rows.flatMap((row) => {
    const id = idOf(row);
    const newer = left.get(id);
    left.delete(id);
    return removed.has(id) && !newer ? [] : [newer ?? row];
  });
  return [...kept, ...left.values()];
}
