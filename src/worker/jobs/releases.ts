import type { Job, PartialAnswer, ReleaseReason, Timing } from '../../protocol/index.ts';
import type { Outbox } from '../results/outbox.ts';
import { failJob } from '../run/run-job.ts';
import { isExtended, type QueueLink } from '../session/peer.ts';
import { brokenBy, LEFT_TO_ITS_LEASE } from './end-reasons.ts';

/** A job on its way back. */
export interface Release {
  job: Job;
  reason: ReleaseReason;
  /** Undefined: it did not reach the engine. */
  timing?: Timing | undefined;
  /** What another attempt goes on from; null: it begins anew. */
  partial: PartialAnswer | null;
}

/**
 * Jobs that are released: they go back to the queue unfinished. A release that cannot be sent now goes over the next
 * connection, whose `register` may have gone out already with the job among those held.
 */
export class Releases {
  readonly #queue: QueueLink;
  readonly #outbox: Outbox;
  #unsent: Release[] = [];

  constructor(queue: QueueLink, outbox: Outbox) {
    this.#queue = queue;
    this.#outbox = outbox;
  }

  /** Those the queue has yet to hear of. */
  get unsent(): number {
    return this.#unsent.length;
  }

  release(given: Release): void {
    const { job, reason, timing, partial } = given;
    const { job_id, fence_token } = job;
    if (isExtended(this.#queue.peer)) {
      const told = { job_id, fence_token, reason, ...(timing && { timing }), ...(partial && { partial }) };
      if (!this.#queue.send({ type: 'job_release', ...told })) this.#unsent.push(given);
    } else if (job.mode === 'transient' || !LEFT_TO_ITS_LEASE.has(reason)) {
      this.#outbox.put(failJob(job, brokenBy(reason), null), job.mode === 'persisted');
    }
  }

  /** A new connection, perhaps to a queue of another kind. */
  connected(): void {
    const unsent = this.#unsent;
    this.#unsent = [];
    for (const given of unsent) this.release(given);
  }

  /** Nothing about it is sent any more. */
  abandon(): void {
    this.#unsent = [];
  }
}
