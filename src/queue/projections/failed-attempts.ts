import type { FailureCode } from '../../protocol/index.ts';
import type { JobEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';

/**
 * Failures that speak against a worker: a request that fails in another way would fail anywhere, or found the engine
 * with too much to do.
 */
const FAULTS: ReadonlySet<string> = new Set<FailureCode>([
  'engine_error',
  'engine_died',
  'engine_unreachable',
  'lease_expired',
  'worker_died',
  'worker_error',
]);

/**
 * Counts the attempts that failed through a worker's fault, by worker, until the fleet object takes them. The record of
 * a request that was repeated elsewhere names only the worker where it went well.
 */
export class FailedAttempts implements Projection {
  #failed: Record<string, number> = {};

  on({ job: { worker_id }, failure }: JobEvent): void {
    if (worker_id === null || failure === undefined || !FAULTS.has(failure.code)) return;
    this.#failed[worker_id] = (this.#failed[worker_id] ?? 0) + 1;
  }

  /** Takes the numbers of failed attempts, by worker. */
  take(): Record<string, number> {
    const failed = this.#failed;
    this.#failed = {};
    return failed;
  }
}
