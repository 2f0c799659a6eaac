import type { Controls } from './control-table.ts';
import type { Core } from './core.ts';
import type { LaunchRecord } from './launch.ts';

/**
 * The fields of a launch that are past times by the queue's clock; `started_at` and `ended_at` are by the provider's.
 */
const PAST = [
  'state_at',
  'intended_at',
  'requested_at',
  'accepted_at',
  'registered_at',
  'ready_at',
  'draining_at',
  'terminating_at',
  'missed_since',
  'ordered_at',
  'clear_at',
] as const satisfies (keyof LaunchRecord)[];

/**
 * Moves all stored times back when the clock was set back, until none of them lies in the future. Otherwise no order
 * would be repeated, and no machine found to be gone, until the clock has caught up.
 */
export function followClock({ launches, now }: Core, controls: Controls): void {
  const rows = launches.all();
  const byMs = newest(rows) - now();
  if (byMs <= 0) return;
  for (const launch of rows) launches.save(moved(launch, byMs));
  controls.moveBack(byMs);
}

/** Returns the newest time, epoch ms; 0 where there is none. */
function newest(launches: readonly LaunchRecord[]): number {
  let latest = 0;
  for (const launch of launches) for (const field of PAST) latest = Math.max(latest, launch[field] ?? 0);
  return latest;
}

function moved(launch: LaunchRecord, byMs: number): LaunchRecord {
  const next = { ...launch };
  for (const field of [...PAST, 'order_due_at'] as const) {
    const at = launch[field];
    if (at !== null) next[field] = at - byMs;
  }
  return next;
}
