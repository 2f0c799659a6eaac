import type { Job, JobRef, PartialAnswer, ReleaseReason, Timing } from '../../protocol/index.ts';
import type { RunningJob } from '../run/running-job.ts';
import type { SpooledSettlement } from './settlement.ts';

/** An attempt that has succeeded or failed, which the queue has not acknowledged yet. */
export interface Settled extends SpooledSettlement {
  state: 'settled';
  /** Whether the settlement has, or will have, a copy in the spool. */
  hasCopy: boolean;
  /**
   * Whether the spool has finished with the settlement, or it needs no copy: an upload may take long, so it comes last.
   */
  mayUpload: boolean;
  /** The controller that aborts the upload in progress; null: there is none. */
  upload: AbortController | null;
}

/** A job that is released while the queue cannot be reached. */
export interface Released {
  state: 'released';
  job: Job;
  reason: ReleaseReason;
  /** The times of the attempt; undefined: it did not reach the engine. */
  timing: Timing | undefined;
  /** The part of the answer that another attempt continues; null: the other attempt starts over. */
  partial: PartialAnswer | null;
}

/**
 * A job that this worker holds, from its frame until the queue knows how its attempt ended.
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
 * The list of all jobs that this worker holds, one record each. It determines the slots that are taken, the jobs that a
 * connection announces, the leases that are renewed, the frames that are sent again and the jobs that a drain waits
 * for.
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

  /** Whether the queue must still be told of a job that has left its slot. */
  get hasUntold(): boolean {
    return this.#byJob.size > this.#running;
  }

  /** Whether a lease must be renewed. */
  get hasLeases(): boolean {
    return this.#byJob.size > this.#released;
  }

  /** Returns the attempt at a job that has a slot; null: there is none. */
  runningOf(jobId: string): RunningJob | null {
    const held = this.#byJob.get(jobId);
    return isRunning(held) ? held : null;
  }

  /** Returns the unacknowledged settlement of a job; null: there is none. */
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

  /** Tells whether this record is still in the list. */
  holds(held: HeldJob): boolean {
    return this.#byJob.get(idOf(held)) === held;
  }

  /** Adds a record at the end of the list, in place of any other record of its job. */
  add(held: HeldJob): void {
    const jobId = idOf(held);
    const older = this.#byJob.get(jobId);
    if (older) this.remove(older);
    this.#byJob.set(jobId, held);
    this.#count(held, 1);
  }

  /** Removes a record, unless another record of its job has taken its place. */
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

  /** Returns the releases that the queue does not know of, oldest first. */
  allReleased(): Released[] {
    return [...this.#byJob.values()].filter((held) => held.state === 'released');
  }

  /** Returns the jobs that a connection announces: those with a lease. */
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
