import type { Alarm } from '../durable/ports.ts';
import { forgetExpired } from '../files/file-index.ts';
import { activeBatches, forgetBatches } from './batch-table.ts';
import type { BatchPorts } from './ports.ts';

/** The interval of the alarm while batches run, ms: it restarts an object that the runtime has ended. */
const LOOK_AGAIN_MS = 30_000;
/** The time for which a batch is remembered after it was created, ms. */
const BATCH_KEPT_MS = 365 * 86_400_000;

/**
 * Forgets what is too old, and makes sure that the alarm comes again: called at the start of the object, after whatever
 * may have begun a batch, and when the alarm comes.
 * @returns whether there are batches to be run
 */
export function lookAfter({ sql, now }: Pick<BatchPorts, 'sql' | 'now'>, alarm: Alarm): boolean {
  forgetBatches(sql, now() - BATCH_KEPT_MS);
  const expires = forgetExpired(sql, now());
  const isActive = activeBatches(sql).length > 0;
  const next = isActive ? now() + LOOK_AGAIN_MS : expires;
  const armed = alarm.get();
  if (next !== null && (armed === null || armed > next || armed <= now())) alarm.set(next);
  return isActive;
}
