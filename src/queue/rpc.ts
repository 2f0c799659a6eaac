import * as z from 'zod';
import type { PoolChoice } from '../fleet/rpc.ts';
import type { JobState, JobSubmission, JobView, Limits, ListedJob, TraceContext } from '../protocol/index.ts';
import type { Prefix } from './prefix-rpc.ts';
import type { WorkerToken } from './store/ports.ts';

export * from './numbers-rpc.ts';
export * from './payload-file.ts';
export * from './prefix-rpc.ts';
export * from './waiting-rpc.ts';

/** Who asks about a job: the tenant that is shown its own jobs alone, to whom others do not exist; null sees all. */
export type Viewer = string | null;

/** @param tenant of the job; null: it was submitted while no tokens were configured */
export function maySee(viewer: Viewer, tenant: string | null | undefined): boolean {
  return viewer === null || viewer === tenant;
}

/**
 * No worker that is connected, or expected back, serves the model: the gateway asks the fleet object for the pool and
 * calls again with it. The queue has reported all its workers to the fleet object by then.
 */
export const UNSERVED = { ok: false, kind: 'unserved' } as const;
export type Unserved = typeof UNSERVED;

export function isUnserved(answer: object | undefined): answer is Unserved {
  return (answer as Partial<Unserved> | undefined)?.kind === UNSERVED.kind;
}

/** The gateway tells the queue this of a worker that dials its control socket. */
export interface WorkerDial {
  /** Scheme, host and port that the worker dialled, and dials again. */
  origin: string;
  /** Null where no tokens are configured. */
  token: WorkerToken | null;
  /** US dollars of its machine; null: it is not known. */
  price_per_hour: number | null;
}

/** A job as the queue tells it. */
export interface ToldJob extends JobView {
  /** The file that holds the result, which is null here; left out where it is none. */
  result_file?: string;
  /** The JSON of the result, where the JSON of its value is another; a call carries values alone. */
  result_text?: string;
}

export interface JobOwner {
  tenant: string | null;
  config_id: string;
  state: JobState;
}

/** The limits of a token, as the gateway last read them. */
export interface ToldLimits {
  token_name: string | null;
  /** Whose token it is. */
  tenant: string | null;
  /** Null: it has none, or none any more. */
  limits: Limits | null;
}

/** JSON text, or the file that holds it. */
export type Contents = { text: string } | { file: string };

/** A validated submission, its payload as the JSON text that will be stored. */
export interface SubmitJob extends Omit<JobSubmission, 'payload' | 'priority'> {
  priority: number;
  payload: string;
  /** The file that holds the payload, which is empty then (payload-file.ts): a long one is in no row. */
  payload_file?: string;
  /** The model that the body for the engine asks for; left out: the job takes whatever the engine serves. */
  model?: string;
  /** A pool, a model or "default", which chooses the pool in place of the model. */
  endpoint?: string;
  /** The token is for certain models: the job may only wait in a pool that serves its model. */
  model_only?: boolean;
  /** What the fleet object knows for the model; left out the first time. */
  known?: PoolChoice;
  /** The trace that its submission belongs to. */
  trace?: TraceContext;
  /** How its prompt begins; left out: nothing is known of it. */
  prefix?: Prefix;
  /** Whose job it is; another's of the same id is a conflict. Null or left out where no tokens are configured. */
  tenant?: string | null;
  /** Name of the token that submits it. */
  token_name?: string | null;
  /** The limits of its token; null: it has none; left out: as they were last told. */
  limits?: Limits | null;
  /** What it may cost at most, as far as can be told; left out: nothing. */
  tokens?: number;
  /** The weight of its token among the jobs of other tenants; left out: 1. */
  weight?: number;
}

export type SubmitAnswer<Told = ToldJob> =
  /** `has_file`: the file of this submission is the job's. */
  | { ok: true; job: Told; created: boolean; has_file: boolean }
  | { ok: false; reason: 'conflict' | 'no_pool' | 'unknown_pool' | 'invalid_webhook'; message: string }
  /** Too much is pending for the pool or the tenant. */
  | { ok: false; reason: 'queue_full'; message: string; retry_after_seconds: number };

/** The answer to a submission of a listener, which hears of the end: it leaves out how the job stands now. */
export type HeardAnswer = SubmitAnswer<Pick<JobView, 'id'>>;

/** What the address of a payload or result says: which attempt it belongs to, and the key to it. */
export interface FileTicket {
  job_id: string;
  fence_token: number;
  key: string;
}

/** `stale`: the attempt is over. `unknown`: no such job, or another key. */
export type FileUploadAnswer = { ok: true } | { ok: false; reason: 'stale' | 'unknown' };
/** `bytes`: of a caller that waits, in UTF-8. */
export type PayloadAnswer =
  | { ok: true; job_type: string; payload: Contents | { bytes: Uint8Array<ArrayBuffer> } }
  | Extract<FileUploadAnswer, { ok: false }>;

/** A job with where its answer can be read while it is made (null: it does not run, or does not stream). */
export interface FollowedJob {
  job: ToldJob;
  live: { worker_id: string; stream_id: number } | null;
  cursor: OutputCursor;
}

/** Jobs that have settled for a listener. Each is told once. */
export interface SettledJobs {
  /**
   * `unknown`: its first question since the queue started or forgot it, so it must name all its jobs. `leaving`: the
   * queue's process is about to end.
   */
  listener: 'known' | 'unknown' | 'leaving';
  /** `view`: a JobView as JSON text. */
  jobs: { id: string; view: string }[];
}

/** How much of the output of a job its caller has taken. */
export interface OutputCursor {
  /** Of the attempt that it was taken from; 0: nothing was. */
  fence_token: number;
  /** Outputs, as RunPod has them: each is what the handler yielded once. */
  taken: number;
}

/** `state`: only what failed or expired is tried again. */
export type RetryAnswer = { ok: true; job: JobView } | { ok: false; state: JobState };

/** Which jobs a list shows. Null: any. */
export interface JobFilter {
  state: string | null;
  config_id: string | null;
  job_type: string | null;
  /** Its tenant; null: any. */
  tenant: string | null;
  /** The worker that had it last. */
  worker_id: string | null;
  /** Of the error with which it ended. */
  error_code: string | null;
}

/** A place in a list: of all jobs, newest first, or of the jobs whose ids begin alike, by id. */
type ListPlace = { created_at: number; seq: number } | { id: string };

/** What is done to all jobs that match a filter. */
export type JobsAction = 'cancel' | 'retry';

/** Which jobs, and how many. Null: any. Times in epoch ms. */
export interface JobListWanted {
  filter: JobFilter;
  /** What its id begins with; then they come in the order of their ids. */
  id_prefix: string | null;
  since: number | null;
  /** Not included. */
  until: number | null;
  /** The `next` of the page before; null: the first page. */
  before: JobPage['next'];
  limit: number;
  /** Whose jobs; null: everybody's. */
  viewer: string | null;
}

export interface JobPage {
  jobs: ListedJob[];
  /** Where the next page begins; null: there is nothing more. A page before may be empty. */
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

/** Jobs of one pool; those that ended are counted since the queue was made. */
export interface PoolJobs {
  in_queue: number;
  in_progress: number;
  completed: number;
  failed: number;
  retried: number;
}

/** A time as the API shows it. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
