import type { Job, PartialAnswer, ReleaseReason, Timing } from '../../protocol/index.ts';
import { failJob } from '../run/run-job.ts';
import { isExtended, type QueueLink } from '../session/peer.ts';
import { brokenBy, LEFT_TO_ITS_LEASE } from './end-reasons.ts';
import type { Outbox } from './outbox.ts';

/** A job that goes back to the queue. */
export interface Release {
  job: Job;
  reason: ReleaseReason;
  /** The times of the attempt; undefined: it did not reach the engine. */
  timing?: Timing | undefined;
  /** The part of the answer that another attempt goes on from; null: the other attempt begins anew. */
  partial: PartialAnswer | null;
}

/**
 * Gives unfinished jobs back to the queue. A release that cannot be sent now goes over the next connection, whose
 * `register` may already have named the job among those held.
 */
export class Releases {
  readonly #queue: QueueLink;
  readonly #outbox: Outbox;
  #unsent: Release[] = [];

  constructor(queue: QueueLink, outbox: Outbox) {
    this.#queue = queue;
    this.#outbox = outbox;
  }

  /** The number of releases of which the queue has not been told yet. */
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

  /** Sends the unsent releases over a new connection, perhaps to a queue of another kind. */
  connected(): void {
    const unsent = this.#unsent;
    this.#unsent = [];
    for (const given of unsent) this.release(given);
  }

  /** Forgets the unsent releases. */
  abandon(): void {
    this.#unsent = [];
  }
}
