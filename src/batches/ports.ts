import type { SettledJobs } from '../asking/settled-jobs.ts';
import type { Sql } from '../durable/ports.ts';
import type { JobView, RouteList } from '../protocol/index.ts';
import type { Batch, Unserved } from './batch.ts';

/** The ports of a batches object. Every call may be made twice with the same effect as once. */
export interface BatchPorts {
  sql: Sql;
  /** Returns the time, epoch ms. It never goes back within one life of the object. */
  now(): number;
  sleep(ms: number): Promise<void>;
  queue: BatchQueue;
  /** The routes that an engine may be asked for. */
  routes: RouteList;
  files: BatchFiles;
  /** Keeps the object at work until this settles. */
  background(work: Promise<void>): void;
  /** Is called when a batch has ended, in the commit that ends it. */
  ended(batch: Batch): void;
  log(level: 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
}

/** The calls of the queue that batches use. */
export interface BatchQueue extends SettledJobs {
  /** Submits the jobs of lines; `nextSettled` reports their ends. Returns the answers in the order of the jobs. */
  submit(jobs: LineJob[]): Promise<SubmittedLine[]>;
  /** Returns the state of a job; null if there is no such job. */
  stateOf(jobId: string): Promise<JobView['state'] | null>;
  cancel(jobId: string): Promise<void>;
  /** Returns what a job waits for, as a clause, or null if it does not wait or that is unknown now. */
  whyWaiting(jobId: string): Promise<string | null>;
  /**
   * Returns for each model, in order, why lines for it cannot run, or null if they can. The whole answer is null if no
   * worker is known yet: the first one may serve any of them.
   */
  unserved(models: (string | null)[]): Promise<(Unserved | null)[] | null>;
  /**
   * Returns where lines for these models would run now, in the order of the models; a null model stands for lines that
   * name none.
   */
  slots(models: (string | null)[]): Promise<BatchSlots[]>;
}

export interface LineJob {
  id: string;
  tenant: string | null;
  token_name: string | null;
  /** The models that the token may ask for, as patterns; left out: all. */
  token_models?: readonly string[];
  /** The paths that the token may ask for, as patterns; left out: all. */
  token_routes?: readonly string[];
  path: string;
  /** The JSON of the request, as the engine gets it. */
  body: string;
  /** The model, which chooses the pool; null: the only one there is. */
  model: string | null;
  deadline_seconds: number;
}

/** The slots of a pool that batch work may use. `config_id` is null if no connected worker serves the model. */
export interface BatchSlots {
  config_id: string | null;
  slots: number;
}

/**
 * The answer to a submitted line. `wait`: the queue does not accept the line now, because too much is pending or no
 * worker serves the model; `refused`: it never will.
 */
export type SubmittedLine = 'submitted' | { wait: string } | { refused: string };

/** The files of batches, by id. */
export interface BatchFiles {
  /** Returns the number of bytes of a file; null if it is gone. */
  size(fileId: string): Promise<number | null>;
  read(fileId: string, offset: number, length: number): Promise<Uint8Array>;
  /** Reads lines of a file, in order; a line whose bytes are gone is shorter than it should be. */
  readLines(fileId: string, lines: { offset: number; length: number }[]): Promise<Uint8Array[]>;
  /** Adds lines whose keys the file does not have yet. @returns the number of the file's bytes */
  append(fileId: string, lines: { key: number; bytes: Uint8Array }[]): Promise<number>;
  /** Completes a file: nothing is added to it any more. @param expiresAt the epoch ms until which it is stored */
  keep(fileId: string, expiresAt: number): Promise<void>;
}
