import type { SettledJobs } from '../../../asking/settled-jobs.ts';
import type { JobView } from '../../../protocol/index.ts';
import type * as chains from './chains.ts';

/** The calls by which the object asks about the jobs of responses in the background; a job has its response's id. */
export interface BackgroundAsk extends SettledJobs {
  /**
   * Returns a job with its result; null: there is none.
   * @param waitMs how long the worker of a cancelled one is waited for, which tells what the job used
   */
  job(id: string, waitMs: number): Promise<JobView | null>;
  /** Cancels a job, unless it has settled, and waits a moment until its worker has told what it used. @returns as `job` */
  cancel(id: string): Promise<JobView | null>;
  /** Says whether a request is over, or unknown to the queue. */
  isOver(id: string): Promise<boolean>;
  /** Erases what a job was asked and has answered, wherever that is stored; one that still runs is cancelled first. */
  erase(id: string): Promise<void>;
  /** Erases what the queue keeps of a response beside it (docs/kept-requests.md). */
  eraseKept(id: string): Promise<void>;
  /** Returns the calls that read the answer of a job while it is made. */
  answers(id: string): JobAnswers;
}

export interface JobAnswers {
  /** Returns a job as soon as it is settled or has an attempt after `fence`, or after `waitMs`; null: there is none. */
  follow(fence: number, waitMs: number): Promise<FollowedJob | null>;
  /** Returns the relay's response for the answer of an attempt, from its beginning. */
  openReplay(workerId: string, streamId: number, signal: AbortSignal): Promise<Response>;
}

export interface FollowedJob {
  job: Pick<JobView, 'state' | 'fence_token' | 'attempt_errors'>;
  /** Where the answer of the attempt can be read; null: nowhere. */
  live: { worker_id: string; stream_id: number } | null;
}

export interface BackgroundPorts {
  on: chains.Responses;
  ask: BackgroundAsk;
  /** Runs something after some ms. @returns a function that cancels it */
  after(ms: number, run: () => void): () => void;
  sleep(ms: number): Promise<void>;
  /** Keeps the object at work until this settles. */
  background(work: Promise<unknown>): void;
  log(level: 'info' | 'warn', message: string, fields?: Record<string, unknown>): void;
  /** Is called when a response has ended, in the commit that ends it. */
  ended(): void;
}
