import type { Controls } from './controls.ts';
import type { Core } from './core.ts';
import type { LaunchRecord } from './launch.ts';
import type { Stray } from './strays.ts';

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
const PAST_OF_STRAY = ['first_seen_at', 'clear_at'] as const satisfies (keyof Stray)[];

/**
 * After the clock was set back: nothing that was written can have happened later than now, so all times move until that
 * is so. Orders would else not be given again, nor a machine be known to be gone, until the clock is there again.
 */
export function followClock({ launches, strays, now }: Core, controls: Controls): void {
  const rows = launches.all();
  const byMs = newest(rows, strays.all()) - now();
  if (byMs <= 0) return;
  for (const launch of rows) launches.save(moved(launch, [...PAST, 'order_due_at'], byMs));
  for (const stray of strays.all()) strays.save(moved(stray, [...PAST_OF_STRAY, 'order_due_at'], byMs));
  controls.moveBack(byMs);
}

/** Epoch ms; 0: there are none. */
function newest(launches: readonly LaunchRecord[], strays: readonly Stray[]): number {
  let latest = 0;
  for (const launch of launches) for (const field of PAST) latest = Math.max(latest, launch[field] ?? 0);
  for (const stray of strays) for (const field of PAST_OF_STRAY) latest = Math.max(latest, stray[field] ?? 0);
  return latest;
}

function moved<Row extends object>(row: Row, fields: (keyof Row)[], byMs: number): Row {
  const next = { ...row };
  for (const field of fields) {
    const at = row[field];
    if (typeof at === 'number') Object.assign(next, { [field]: at - byMs });
  }
  return next;
}
