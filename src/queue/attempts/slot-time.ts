import type { UsageAmounts } from '../rpc.ts';
import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import type { Worker } from '../state/worker.ts';
import { findPrice, type Priced } from '../store/session-table.ts';

/**
 * The time that attempts hold slots, and what it costs: the price of the worker's machine, divided by its slots
 * (docs/usage.md). All of it counts, whatever becomes of the attempt, until the queue knows its end, and once.
 */

const HOUR_MS = 3_600_000;
const NANO = 1e9;

/** What is counted of the attempt that a job is leased for; nothing where it is leased to nobody, or was counted. */
export function takeSlotTime(core: Core, job: Job): Partial<UsageAmounts> {
  const { state, worker_id, fence_token, leased_at } = job;
  if (state !== 'leased' || worker_id === null) return {};
  const worker = core.workers.lastOf(worker_id);
  if (worker !== null) return takeSlotTimeOf(core, worker, fence_token);
  // Its worker is not expected any more, or was not heard since a restart of the queue.
  return amountsOf(core.now() - (leased_at ?? core.now()), findPrice(core.sql, worker_id));
}

/** The same of an attempt that may be of no job which is known. */
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
