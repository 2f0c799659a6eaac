import { type JobView, QUEUE_HOME, streamIdOf } from '../../protocol/index.ts';
import type { Job } from '../job.ts';
import { reserveFences } from '../store/jobs-table.ts';
import type { Sql } from '../store/ports.ts';

/** Fence tokens that one write reserves; a restart skips the rest of its block. */
const BLOCK = 65_536;

/**
 * Hands out fence tokens: one per dispatch, growing over the life of the queue, never twice. They come from
 * blocks reserved on disk, so that the dispatch of a waiting job costs no commit.
 */
export class Fences {
  readonly #sql: Sql;
  #first = Number.POSITIVE_INFINITY;
  #next = 0;
  #end = 0;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  next(): number {
    if (this.#next === this.#end) {
      this.#next = reserveFences(this.#sql, BLOCK);
      this.#end = this.#next + BLOCK;
      this.#first = Math.min(this.#first, this.#next);
    }
    return this.#next++;
  }

  /** Says whether an earlier process of the queue handed this token out. */
  isEarlier(fence: number): boolean {
    return fence < this.#first;
  }
}

/** Returns the stream of the newest attempt at a job; those of stored jobs are at the queue's own process. */
export function streamOf(job: Job): number {
  return streamIdOf(job.fence_token, job.mode === 'waiting' ? job.home : QUEUE_HOME);
}

/** Returns where a streamed answer can be read while it is made; null if the job does not run or does not stream. */
export function liveAnswerOf(job: JobView): { worker_id: string; stream_id: number } | null {
  if (!job.stream || job.state !== 'leased' || job.worker_id === null) return null;
  return { worker_id: job.worker_id, stream_id: streamIdOf(job.fence_token) };
}
