import type { Sql } from '../durable/ports.ts';
import type { JobView, RouteList } from '../protocol/index.ts';

/** What a batch is run with. Every call may be made twice with the same effect as once. */
export interface BatchPorts {
  sql: Sql;
  /** Epoch ms. In one life of the object it never goes back. */
  now(): number;
  sleep(ms: number): Promise<void>;
  queue: BatchQueue;
  /** What an engine may be asked for. */
  routes: RouteList;
  files: BatchFiles;
  /** Keeps the object at work until this settles. */
  background(work: Promise<void>): void;
  log(level: 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
}

/** The queue, as batches use it. */
export interface BatchQueue {
  /** Submits the jobs of lines; what settles of them is told by `nextSettled`. In order of the jobs. */
  submit(jobs: LineJob[]): Promise<SubmittedLine[]>;
  /**
   * Starts listening anew, for no job yet. The queue forgets earlier listening, and answers the question that this object
   * had open before a restart, which would otherwise receive what settles from now on.
   */
  listenAnew(): Promise<void>;
  /** Listens for jobs that were submitted before. @returns ids under which there is no job */
  listen(jobIds: string[]): Promise<string[]>;
  /** What has settled, as soon as there is something, or nothing after `waitMs`; null: the queue has restarted since `listenAnew`. */
  nextSettled(waitMs: number): Promise<JobView[] | null>;
  /** Null: there is no such job. */
  stateOf(jobId: string): Promise<JobView['state'] | null>;
  cancel(jobId: string): Promise<void>;
  /** Returns what a job waits for, as a clause, or null where it does not wait or nobody can tell now. */
  whyWaiting(jobId: string): Promise<string | null>;
  /**
   * Returns for each model, in order, why lines for it cannot run, or null where they can. The whole answer is null
   * where no worker is known yet: the first one may serve any of them.
   */
  unserved(models: (string | null)[]): Promise<(Unserved | null)[] | null>;
  /** Where lines for these models would run now. In order of the models; null: named by none. */
  slots(models: (string | null)[]): Promise<BatchSlots[]>;
}

export interface LineJob {
  id: string;
  tenant: string | null;
  token_name: string | null;
  /** Models that the token may ask for, as patterns; left out: all. */
  token_models?: readonly string[];
  /** Paths that the token may ask for, as patterns; left out: all. */
  token_routes?: readonly string[];
  path: string;
  /** JSON of the request, as it is for the engine. */
  body: string;
  /** Chooses the pool; null: the only one there is. */
  model: string | null;
  deadline_seconds: number;
}

/** Slots that batch work may use of a pool; null: no worker that is here serves the model. */
export interface BatchSlots {
  config_id: string | null;
  slots: number;
}

/** Why lines for a model cannot run. `model_required`: the lines name no model, and there are several. */
export interface Unserved {
  code: 'model_not_found' | 'model_required';
  message: string;
}

/** `wait`: not now, because too much is pending or no worker serves the model; `refused`: never. */
export type SubmittedLine = 'submitted' | { wait: string } | { refused: string };

/** The files of batches, by id. */
export interface BatchFiles {
  /** @returns null: it is gone */
  size(fileId: string): Promise<number | null>;
  read(fileId: string, offset: number, length: number): Promise<Uint8Array>;
  /** Lines of it, in their order; one that is not there is shorter than it should be. */
  readLines(fileId: string, lines: { offset: number; length: number }[]): Promise<Uint8Array[]>;
  /** Adds lines whose keys the file does not have yet. @returns its bytes */
  append(fileId: string, lines: { key: number; bytes: Uint8Array }[]): Promise<number>;
  /** Nothing is added to it any more, and it is kept until then, epoch ms. */
  keep(fileId: string, expiresAt: number): Promise<void>;
}
