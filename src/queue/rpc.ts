import * as z from 'zod';
import type { JobState, JobSubmission, JobView, Limits, ListedJob, RequestCost } from '../protocol/index.ts';
import type { GivenExtras } from './job-extras.ts';
import type { KnownPools } from './waiting-rpc.ts';

export * from './job-extras.ts';
export * from './numbers-rpc.ts';
export * from './waiting-rpc.ts';

/**
 * The party that asks about a job: a tenant, which sees its own jobs alone and for which others do not exist; null: it
 * sees all jobs.
 */
export type Viewer = string | null;

/**
 * Says whether the viewer may see a job.
 * @param tenant the job's tenant; null: it was submitted while no tokens were configured
 */
export function maySee(viewer: Viewer, tenant: string | null | undefined): boolean {
  return viewer === null || viewer === tenant;
}

/**
 * The answer where no worker that is connected, or expected back, serves the model: the gateway asks the fleet object
 * for the pool and calls again with it. The queue has reported all its workers to the fleet object by then.
 */
export interface Unserved {
  ok: false;
  kind: 'unserved';
  /** The models whose pools are asked for: of an alias there may be several. */
  models: readonly (string | null)[];
}

export function unservedOf(models: readonly (string | null)[]): Unserved {
  return { ok: false, kind: 'unserved', models };
}

export function isUnserved(answer: object | undefined): answer is Unserved {
  return (answer as Partial<Unserved> | undefined)?.kind === 'unserved';
}

/** The gateway's report to the queue about a worker that dials its control socket. */
export interface WorkerDial {
  /** The scheme, host and port that the worker dialled and will dial again. */
  origin: string;
  /** The worker's token; null where no tokens are configured. */
  token: WorkerToken | null;
  /** The price of the worker's machine, US dollars per hour; null: unknown. */
  price_per_hour: number | null;
}

/** The token with which a worker dialled. */
export interface WorkerToken {
  name: string;
  /** SHA-256 of the secret; left out for a launched worker, whose token ends with its launch. */
  sha256?: string;
  /** The time when the token expires, epoch ms; left out if it does not. */
  expires_at?: number;
  /** Pattern of the worker ids that may use the token; null for any. */
  worker_ids: string | null;
  /** The only pool whose jobs a worker with this token may be given; null for any. */
  config_id: string | null;
}

/** A job as the queue's calls return it. */
export interface ToldJob extends JobView {
  /** The file that holds the result; `result` is null then. Left out where the result is in no file. */
  result_file?: string;
  /** The result's own JSON text where serializing its value would give another text; a call carries only values. */
  result_text?: string;
}

export interface JobOwner {
  tenant: string | null;
  /** The name of the token that submitted the job; null where no tokens are configured. */
  token_name: string | null;
  config_id: string;
  state: JobState;
}

/** JSON text, or the file that holds it. */
export type Contents = { text: string } | { file: string };

/** A validated submission, its payload as the JSON text that will be stored. */
export interface SubmitJob extends Omit<JobSubmission, 'payload' | 'priority'>, GivenExtras {
  priority: number;
  payload: string;
  /** The file that holds the payload (`payloadFileId`), since no row holds a long one; `payload` is empty then. */
  payload_file?: string;
  /** The model that the engine request's body names; left out: the job accepts whatever the engine serves. */
  model?: string;
  /** A pool, a model or "default" that chooses the pool in place of the job's model. */
  endpoint?: string;
  /** True where the token is for certain models: the job may only wait in a pool that serves its model. */
  model_only?: boolean;
  /** The pools that the fleet object knows, by model; left out of the first call. */
  known?: KnownPools;
  /** The conversation that the job belongs to, as its payload names it; left out: it names none. */
  session?: string;
  /**
   * The job's tenant; a job of another tenant under the same id is a conflict. Null or left out where no tokens are
   * configured.
   */
  tenant?: string | null;
  /** The name of the token that submits the job. */
  token_name?: string | null;
  /** The limits of the job's token; null: it has none; left out: they are as last reported. */
  limits?: Limits | null;
  /** The most that the job may cost; left out: nothing is known of it. */
  cost?: RequestCost;
}

export type SubmitAnswer<Told = ToldJob> =
  /** The job is stored. `has_file`: the job uses the file of this submission. */
  | { ok: true; job: Told; created: boolean; has_file: boolean }
  | { ok: false; reason: 'conflict' | 'no_pool' | 'unknown_pool' | 'invalid_webhook'; message: string }
  /** The gateway did not submit the job, since a filter refused it (asking/filters.ts). */
  | { ok: false; reason: 'filtered'; status: number; code: string; message: string }
  /** Too many jobs are pending for the pool or the tenant. */
  | { ok: false; reason: 'queue_full'; message: string; retry_after_seconds: number };

/**
 * The answer to a listener's submission. It leaves out the job's state, since the listener is told when the job ends.
 */
export type HeardAnswer = SubmitAnswer<Pick<JobView, 'id'>>;

/** The contents of a payload's or result's address: the attempt that it belongs to, and the key. */
export interface FileTicket {
  job_id: string;
  fence_token: number;
  key: string;
}

/** The answer to an upload. `stale`: the attempt is over. `unknown`: there is no such job, or the key is another. */
export type FileUploadAnswer = { ok: true } | { ok: false; reason: 'stale' | 'unknown' };
/** The answer to a download of a payload. `bytes`: the payload of a waiting job, in UTF-8. */
export type PayloadAnswer =
  | { ok: true; job_type: string; payload: Contents | { bytes: Uint8Array<ArrayBuffer> } }
  | Extract<FileUploadAnswer, { ok: false }>;

/**
 * A job with the place where its answer can be read while it is generated; `live` is null where the job does not run,
 * or does not stream.
 */
export interface FollowedJob {
  job: ToldJob;
  live: { worker_id: string; stream_id: number } | null;
  cursor: OutputCursor;
}

/** The jobs that have settled for a listener. Each job is reported once. */
export interface SettledJobs {
  /**
   * The listener's standing. `unknown`: the listener asks for the first time since the queue started or forgot it, so
   * it must name all its jobs. `leaving`: the queue's process is about to end.
   */
  listener: 'known' | 'unknown' | 'leaving';
  /** The settled jobs; `view` is a JobView as JSON text. */
  jobs: { id: string; view: string }[];
}

/** The place in a job's output up to which its caller has taken it. */
export interface OutputCursor {
  /** The fence token of the attempt whose output was taken; 0: none was. */
  fence_token: number;
  /** The number of outputs taken, in RunPod's sense: each is what the handler yielded once. */
  taken: number;
}

/**
 * The answer to a retry. `state`: the job is in this state, and only failed or expired jobs are tried again, unless what
 * they were asked has been erased.
 */
export type RetryAnswer = { ok: true; job: JobView } | { ok: false; state: JobState; is_erased?: true };

/** The jobs that a list shows; a field that is null allows any. */
export interface JobFilter {
  state: string | null;
  config_id: string | null;
  job_type: string | null;
  /** The job's tenant. */
  tenant: string | null;
  /** The worker that had the job last. */
  worker_id: string | null;
  /** The code of the error with which the job ended. */
  error_code: string | null;
}

/** A place in a list: of all jobs, newest first, or of the jobs whose ids begin alike, by id. */
type ListPlace = { created_at: number; seq: number } | { id: string };

/** The action that is applied to all jobs that match a filter. */
export type JobsAction = 'cancel' | 'retry';

/** The jobs that a list request wants, and how many. Null: any. Times are in epoch ms. */
export interface JobListWanted {
  filter: JobFilter;
  /** The prefix of the jobs' ids; with it, jobs come in the order of their ids. */
  id_prefix: string | null;
  since: number | null;
  /** The end of the period, excluded. */
  until: number | null;
  /** The previous page's `next`; null: the first page. */
  before: JobPage['next'];
  limit: number;
  /** The tenant that asks, which sees its own jobs alone; null sees all jobs. */
  viewer: string | null;
}

export interface JobPage {
  jobs: ListedJob[];
  /** The place where the next page begins; null: this page is the last. A page that is not the last may be empty. */
  next: ListPlace | null;
}

const count = z.number().int().min(0);
export const QueueStatus = z.object({
  queue_id: z.string(),
  workers: count,
  slots: count,
  running: count,
  pending: count,
});
export type QueueStatus = z.infer<typeof QueueStatus>;

/** The numbers of jobs of one pool; jobs that ended are counted since the queue was created. */
export interface PoolJobs {
  in_queue: number;
  in_progress: number;
  completed: number;
  failed: number;
  retried: number;
}

/** Formats a time as the API shows it. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/*
 * Ids of files that hold payloads are made and read here. The queue never sees the files' bytes, so an id says what the
 * queue must know of them: `payload-base-DIGEST-…` where a worker that speaks only the base protocol can run the job,
 * `payload-own-DIGEST-…` otherwise.
 */

/** Makes the id of a new payload file. @param sha256 the digest of the payload, in hex */
export function payloadFileId(sha256: string, suitsBase: boolean): string {
  return `payload-${suitsBase ? 'base' : 'own'}-${sha256}-${crypto.randomUUID()}`;
}

export function fileSuitsBase(id: string): boolean {
  return id.startsWith('payload-base-');
}

/** Says whether two files hold the same payload. */
export function isSamePayload(one: string, other: string): boolean {
  return digestOf(one) === digestOf(other);
}

function digestOf(id: string): string | undefined {
  return id.split('-')[2];
}
