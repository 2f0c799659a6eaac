import type { Controls } from './control-table.ts';
import type { Core } from './core.ts';
import type { LaunchRecord } from './launch.ts';

/** By the queue's clock and of the past; `started_at` and `ended_at` are the provider's. */
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
 * When the clock was set back, stored times lie in the future: all of them move back until none does. Otherwise no order
 * would be repeated, and no machine found to be gone, until the clock has caught up.
 */
export function followClock({ launches, now }: Core, controls: Controls): void {
  const rows = launches.all();
  const byMs = newest(rows) - now();
  if (byMs <= 0) return;
  for (const launch of rows) launches.save(moved(launch, byMs));
  controls.moveBack(byMs);
}

/** Epoch ms; 0: there are none. */
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
