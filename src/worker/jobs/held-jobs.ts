import type { Job, JobRef, PartialAnswer, ReleaseReason, Timing } from '../../protocol/index.ts';
import type { RunningJob } from '../run/running-job.ts';
import type { SpooledSettlement } from './settlement.ts';

/** An attempt that has succeeded or failed, of which the queue has not taken note yet. */
export interface Settled extends SpooledSettlement {
  state: 'settled';
  /** True if the settlement has, or will have, a copy in the spool. */
  hasCopy: boolean;
  /**
   * True once the spool is done with the settlement, or if it needs no copy: an upload may take long, so it comes last.
   */
  mayUpload: boolean;
  /** Aborts the upload in progress. */
  upload: AbortController | null;
}

/** A job that goes back to the queue, which cannot be told at the moment. */
export interface Released {
  state: 'released';
  job: Job;
  reason: ReleaseReason;
  /** The times of the attempt; undefined: it did not reach the engine. */
  timing: Timing | undefined;
  /** The part of the answer that another attempt goes on from; null: the other attempt begins anew. */
  partial: PartialAnswer | null;
}

/**
 * A job that this worker holds, from its frame until the queue has taken note of how its attempt ended.
 *
 * - `preparing` → `running` (its request went to the engine), or as `running`
 * - `running`   → `settled` (it succeeded or failed), `released` (it goes back, and the queue cannot be told now), gone
 *   (it goes back and the queue was told, it was revoked, or a newer attempt came)
 * - `settled`   → gone (it was acknowledged or revoked, a newer attempt came; with a base queue: it was sent)
 * - `released`  → gone (the queue was told over a new connection, or a newer attempt came)
 *
 * A job takes a slot while it is `preparing` or `running`. It has a lease until it is gone or released.
 */
export type HeldJob = RunningJob | Settled | Released;

/** Tells whether the job has a slot. */
function isRunning(held: HeldJob | undefined): held is RunningJob {
  return held !== undefined && held.state !== 'settled' && held.state !== 'released';
}

/**
 * All jobs that this worker holds, one record for each. The slots that are taken, what a connection announces, which
 * leases are renewed, what is sent again and what a drain waits for are all read off this list.
 */
export class HeldJobs {
  readonly #byJob = new Map<string, HeldJob>();
  #running = 0;
  #released = 0;

  /** The number of jobs in slots. */
  get running(): number {
    return this.#running;
  }

  /** The number of settlements that the queue has not acknowledged. */
  get settled(): number {
    return this.#byJob.size - this.#running - this.#released;
  }

  /** True while the queue has to hear of a job that has left its slot. */
  get hasUntold(): boolean {
    return this.#byJob.size > this.#running;
  }

  /** True while a lease has to be renewed. */
  get hasLeases(): boolean {
    return this.#byJob.size > this.#released;
  }

  /** Returns the attempt at a job that has a slot. */
  runningOf(jobId: string): RunningJob | null {
    const held = this.#byJob.get(jobId);
    return isRunning(held) ? held : null;
  }

  /** Returns the settlement of a job that is not acknowledged. */
  settledOf(jobId: string): Settled | null {
    const held = this.#byJob.get(jobId);
    return held?.state === 'settled' ? held : null;
  }

  /** Returns the fence token of the newest attempt at a job that is held; 0: none is. */
  fenceOf(jobId: string): number {
    const held = this.#byJob.get(jobId);
    if (held === undefined) return 0;
    return held.state === 'settled' ? held.settlement.fence_token : held.job.fence_token;
  }

  /** Tells whether this record still stands in the list. */
  holds(held: HeldJob): boolean {
    return this.#byJob.get(idOf(held)) === held;
  }

  /** Puts a record at the end of the list, in place of another one of its job. */
  add(held: HeldJob): void {
    const jobId = idOf(held);
    const older = this.#byJob.get(jobId);
    if (older) this.remove(older);
    this.#byJob.set(jobId, held);
    this.#count(held, 1);
  }

  /** Removes a record, unless another one of its job has taken its place. */
  remove(held: HeldJob): void {
    if (!this.holds(held)) return;
    this.#byJob.delete(idOf(held));
    this.#count(held, -1);
  }

  clear(): void {
    this.#byJob.clear();
    this.#running = 0;
    this.#released = 0;
  }

  /** Returns the attempts in slots, oldest first. */
  allRunning(): RunningJob[] {
    return [...this.#byJob.values()].filter(isRunning);
  }

  /** Returns the settlements that are not acknowledged, oldest first. */
  allSettled(): Settled[] {
    return [...this.#byJob.values()].filter((held) => held.state === 'settled');
  }

  /** Returns the releases that the queue has not been told, oldest first. */
  allReleased(): Released[] {
    return [...this.#byJob.values()].filter((held) => held.state === 'released');
  }

  /** Returns what a connection announces: the jobs with a lease. */
  refs(): (JobRef & { account?: string })[] {
    const refs: (JobRef & { account?: string })[] = [];
    for (const held of this.#byJob.values()) {
      if (held.state === 'released') continue;
      if (held.state === 'settled') {
        const { job_id, fence_token } = held.settlement;
        refs.push({ job_id, fence_token });
      } else {
        const { job_id, fence_token, account } = held.job;
        refs.push({ job_id, fence_token, ...(account !== undefined && { account }) });
      }
    }
    return refs;
  }

  /**
   * Returns the tokens generated so far, by the fence token of the attempt; attempts without a known number are left
   * out.
   */
  generated(): [fence: number, tokens: number][] {
    return this.allRunning().flatMap(({ job: { fence_token }, usage, counting }) => {
      const tokens = (usage ?? counting())?.completion_tokens ?? 0;
      return tokens > 0 ? [[fence_token, tokens] as const satisfies [number, number]] : [];
    });
  }

  #count(held: HeldJob, by: 1 | -1): void {
    if (held.state === 'released') this.#released += by;
    else if (held.state !== 'settled') this.#running += by;
  }
}

function idOf(held: HeldJob): string {
  return held.state === 'settled' ? held.settlement.job_id : held.job.job_id;
}
