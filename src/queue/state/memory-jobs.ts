import type { RequestAnswer } from '../rpc.ts';
import type { Ending, JobStore, Lease, MemoryJob } from './job.ts';
import type { ReadySet } from './ready-set.ts';
import { Soonest } from './soonest.ts';
import { WaitingLine } from './waiting-line.ts';

/** Jobs in memory: nothing here costs a statement or a commit. */
export class MemoryJobs implements JobStore<MemoryJob> {
  readonly waiting = new WaitingLine();
  /** Epoch ms at which the next one that runs has reached its time limit. */
  readonly #nextLimit = new Soonest();
  readonly #ready: ReadySet;
  readonly #jobs = new Map<string, MemoryJob>();

  constructor(ready: ReadySet) {
    this.#ready = ready;
  }

  get size(): number {
    return this.#jobs.size;
  }

  find(id: string): MemoryJob | null {
    return this.#jobs.get(id) ?? null;
  }

  /** A copy: jobs may end while it is gone through. */
  all(): MemoryJob[] {
    return [...this.#jobs.values()];
  }

  isWaiting(job: MemoryJob): boolean {
    return job.state === 'pending' && this.#jobs.get(job.id) === job;
  }

  /** A job that waits for a slot. */
  add(job: MemoryJob): void {
    this.#jobs.set(job.id, job);
    this.waiting.enter(job);
    this.#ready.job(job);
  }

  /** It is over, and its caller was told. */
  remove(job: MemoryJob): void {
    this.waiting.leave(job);
    if (this.#jobs.get(job.id) === job) this.#jobs.delete(job.id);
  }

  /** Epoch ms at which one that runs may have reached its time limit; infinite: none has one. */
  get nextLimit(): number {
    return this.#nextLimit.get(0, () => Math.min(...this.all().map(limitOf)));
  }

  /** Those that had reached their limit are over. */
  forgetLimits(): void {
    this.#nextLimit.forget();
  }

  lease(job: MemoryJob, { fence_token, worker_id, leased_at, file_key }: Lease): MemoryJob {
    this.waiting.leave(job);
    this.#nextLimit.lower(limitOf(job));
    return Object.assign(job, { state: 'leased', fence_token, worker_id, leased_at, file_key });
  }

  extend(job: MemoryJob): void {
    job.lease_expires_at = null;
  }

  orphan(job: MemoryJob, expiresAt: number): void {
    job.lease_expires_at = expiresAt;
  }

  /** Where a relay carries the answer the gateway was told, and asks again; else it waits again. */
  release(job: MemoryJob): void {
    this.remove(job);
    if (job.reply === null) return;
    this.add({
      ...job,
      state: 'pending',
      fence_token: 0,
      worker_id: null,
      lease_expires_at: null,
      is_repeat: true,
    });
  }

  end(job: MemoryJob, ending: Ending): void {
    this.remove(job);
    job.reply?.(answerOf(job, ending));
    job.reply = null;
  }

  fileKey(job: MemoryJob): string | null {
    return job.file_key;
  }
}

/** One that waits is rejected in time by whoever watches the waiting. */
function limitOf({ limit_at }: MemoryJob): number {
  return limit_at ?? Number.POSITIVE_INFINITY;
}

function answerOf({ worker_id }: MemoryJob, ending: Ending): RequestAnswer {
  const by = worker_id ?? '';
  switch (ending.state) {
    case 'succeeded':
      return { kind: 'result', result: ending.result ?? {}, worker_id: by };
    case 'cancelled':
      return {
        kind: 'refused',
        reason: 'cancelled',
        message: ending.error.message,
        retry_after_seconds: 0,
      };
    case 'failed':
    case 'expired':
      return { kind: 'error', failure: ending.error, worker_id: by };
  }
}
