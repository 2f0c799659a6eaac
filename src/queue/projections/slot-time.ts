import type { UsageAmounts } from '../rpc.ts';
import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import type { Worker } from '../state/worker.ts';
import { findPrice, type Priced } from '../store/session-table.ts';

/**
 * Counts the time that attempts hold slots, and its cost: the price of the worker's machine, divided by its slots
 * (docs/usage.md). Each attempt is counted once, in full, until the queue learns that it ended, however it ended.
 */

const HOUR_MS = 3_600_000;
const NANO = 1e9;

/**
 * Takes the slot time of the attempt that holds the job's lease; empty if no attempt does, or it was counted before.
 */
export function takeSlotTime(core: Core, job: Job): Partial<UsageAmounts> {
  const { state, worker_id, fence_token, leased_at } = job;
  if (state !== 'leased' || worker_id === null) return {};
  const worker = core.workers.lastOf(worker_id);
  if (worker !== null) return takeSlotTimeOf(core, worker, fence_token);
  // The queue no longer expects the worker back, or the worker has not registered since the queue restarted.
  return amountsOf(core.now() - (leased_at ?? core.now()), findPrice(core.sql, worker_id));
}

/** Takes the slot time of one attempt at a worker, even where the queue does not know its job. */
export function takeSlotTimeOf(core: Core, worker: Worker, fence: number): Partial<UsageAmounts> {
  const since = worker.heldSince.get(fence);
  if (since === undefined) return {};
  worker.heldSince.delete(fence);
  return amountsOf(core.now() - since, worker.session);
}

function amountsOf(ms: number, of: Priced | null): Partial<UsageAmounts> {
  const slot_ms = Math.max(0, Math.round(ms));
  if (!of || of.price_per_hour === null || of.capacity === 0) return { slot_ms, unpriced_slot_ms: slot_ms };
  return {
    slot_ms,
    nanodollars: Math.round((of.price_per_hour * NANO * slot_ms) / of.capacity / HOUR_MS),
  };
}
