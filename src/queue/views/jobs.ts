import {
  type JobRef,
  keepMembers,
  type ListedJob,
  runpodJob,
  runpodOutput,
  type Waiting,
  waitsFor,
  writeJson,
} from '../../protocol/index.ts';
import { mayHaveResult } from '../attempts/tickets.ts';
import { isBatchWork, type StoredJob } from '../job.ts';
import {
  type Contents,
  type JobFilter,
  type JobListWanted,
  type JobOwner,
  type JobPage,
  maySee,
  type Viewer,
  type WaitingJobFacts,
} from '../rpc.ts';
import { type Core, findJob } from '../state/state.ts';
import { isLeaving, mayRun } from '../state/worker.ts';
import { attemptErrors, shortErrorOf, summaryOf, viewOf } from '../store/job-view.ts';
import { readPayload, readResult } from '../store/jobs-table.ts';
import { jobsBefore, jobsByPrefix, type Look, listedJobs } from '../store/list-table.ts';

/** The facts that filters know of a stored job whose result has come. `result_file`: the file that holds its result, if one does. */
export type SettlingFacts = Pick<
  StoredJob,
  'job_type' | 'tenant' | 'token_name' | 'model' | 'extras' | 'result_file'
>;

/** Bounds the jobs that one call looks at: a filter that fits few of many must not hold up the queue. */
const MOST_LOOKED_AT = 2000;

/**
 * Returns a page of all jobs, newest first, or of the jobs whose ids begin alike, by id. One call looks at a bounded
 * number of rows, so a page may be short, or empty, before the end: only a page whose `next` is null is the last.
 */
export function list(core: Core, wanted: JobListWanted): JobPage {
  const { viewer, filter: asked } = wanted;
  // Jobs of other tenants do not exist for a tenant: a filter for them finds nothing.
  if (viewer !== null && asked.tenant !== null && asked.tenant !== viewer) return { jobs: [], next: null };
  const filter = { ...asked, tenant: viewer ?? asked.tenant };
  const { found, last } = look(core, wanted, filter);
  const jobs: StoredJob[] = [];
  // The rows are read in bites, since they are wide and all jobs found may be in the requested state.
  let taken = 0;
  while (taken < found.length && jobs.length < wanted.limit) {
    const bite = found.slice(taken, taken + wanted.limit);
    jobs.push(...listedJobs(core.sql, bite, filter));
    taken += bite.length;
  }
  const page = jobs.slice(0, wanted.limit);
  const isAll = taken === found.length && page.length === jobs.length;
  const end = isAll ? last : page.at(-1)!;
  return { jobs: page.map(listed), next: end && placeOf(wanted, end) };
}

function look({ sql }: Core, { id_prefix, since, until, before }: JobListWanted, filter: JobFilter): Look {
  const latest = until ?? Number.MAX_SAFE_INTEGER;
  if (id_prefix !== null) {
    const after = before && 'id' in before ? before.id : null;
    return jobsByPrefix(sql, id_prefix, after, { since: since ?? 0, until: latest }, filter, MOST_LOOKED_AT);
  }
  const from = before && 'seq' in before ? before : { created_at: latest, seq: 0 };
  return jobsBefore(sql, from, since ?? 0, filter, MOST_LOOKED_AT);
}

function placeOf({ id_prefix }: JobListWanted, job: { id: string; created_at: number; seq: number }) {
  return id_prefix === null ? { created_at: job.created_at, seq: job.seq } : { id: job.id };
}

function listed(job: StoredJob): ListedJob {
  return { ...summaryOf(job), error: shortErrorOf(job) };
}

/**
 * Returns the payload or the result of a stored job; null if there is none, or none for this reader.
 * @param reader whose contents may be read
 */
export function contents(
  core: Core,
  jobId: string,
  kind: 'payload' | 'result',
  reader: Viewer,
): Contents | null {
  const job = core.stored.find(jobId);
  if (job === null || !maySee(reader, job.tenant)) return null;
  if (kind === 'result' && job.state !== 'succeeded') return null;
  const file = kind === 'payload' ? job.payload_file : job.result_file;
  if (file !== null) return { file };
  const text = kind === 'payload' ? readPayload(core.sql, jobId) : readResult(core.sql, jobId);
  return text === null ? null : { text };
}

/** Returns a stored job that a result of this attempt would settle, as filters know it; null: it would settle none. */
export function settling(core: Core, attempt: JobRef): SettlingFacts | null {
  const job = core.stored.find(attempt.job_id);
  if (job === null || !mayHaveResult(core, attempt)) return null;
  const { job_type, tenant, token_name, model, extras, result_file } = job;
  return { job_type, tenant, token_name, model, extras, result_file };
}

/** Returns the tenant, pool and state of a job of either mode; null if there is no such job. */
export function ownerOf(core: Core, jobId: string): JobOwner | null {
  const job = findJob(core, jobId);
  if (job === null) return null;
  const { tenant, token_name, config_id, state } = job;
  return { tenant, token_name, config_id, state };
}

/**
 * Returns the body of the post about a settled job; null if the job is forgotten. It holds a result that lies in the
 * row of the job, or the address of a longer result, relative to the queue's. A job in RunPod's form is posted in that
 * form to its own webhook; the queue's webhook gets all jobs in one form.
 */
export function webhookBody(core: Core, jobId: string): string | null {
  const job = core.stored.find(jobId);
  if (job === null || job.settled_at === null) return null;
  if (job.job_type === 'runpod' && job.extras.webhook !== undefined) return runpodBody(core, job);
  const { result: _, error, settled_at, ...view } = viewOf(core.sql, job, false);
  const data = { ...view, settled_at, error };
  const head = JSON.stringify({ type: `job.${job.state}`, timestamp: settled_at, data }).slice(0, -2);
  return `${head},${resultOf(core, job)}}}`;
}

/** Writes the body as RunPod posts it: the job as its API shows it. */
function runpodBody({ sql, settings }: Core, job: StoredJob): string {
  const result = job.state === 'succeeded' ? readResult(sql, job.id) : null;
  const output = result === null ? null : outputIn(result);
  const [pool, id, queue] = [job.config_id, job.id, settings.queue_id].map(encodeURIComponent);
  const isLeftOut = job.state === 'succeeded' && output === null;
  const address = isLeftOut ? { output_url: `/v2/${pool}/status/${id}?queue_id=${queue}` } : {};
  return writeJson({ ...runpodJob(viewOf(sql, job, false), output), ...address });
}

function outputIn(json: string): unknown[] {
  const result: unknown = JSON.parse(json);
  keepMembers(result, new TextEncoder().encode(json), ['output']);
  return runpodOutput(result);
}

/** Writes the last field of `data`. */
function resultOf(core: Core, { id, state }: StoredJob): string {
  if (state !== 'succeeded') return '"result":null';
  const result = readResult(core.sql, id);
  if (result !== null) return `"result":${result}`;
  const address = `/api/jobs/${encodeURIComponent(id)}?queue_id=${encodeURIComponent(core.settings.queue_id)}`;
  return `"result":null,"result_url":${JSON.stringify(address)}`;
}

/** The most characters that are shown of the last attempt's error. */
const MOST_OF_ERROR = 200;

/**
 * Returns what a stored job waits for, as far as the queue alone knows; `own` is null where the job waits for its pool.
 * Null if there is no such job, or it does not wait.
 */
export function waitingJob(core: Core, jobId: string, viewer: Viewer): WaitingJobFacts | null {
  const job = core.stored.find(jobId);
  if (job === null || job.state !== 'pending' || !maySee(viewer, job.tenant)) return null;
  const { config_id, model } = job;
  return { config_id, model, is_batch: isBatchWork(job), own: ownWait(core, job) };
}

function ownWait(core: Core, job: StoredJob): Waiting | null {
  if (job.is_held === 1) return core.admission.waitOf(job);
  if (job.run_after !== null) {
    const last = attemptErrors(job).at(-1)?.message ?? 'it was given back';
    const clause = `its attempt ${job.attempts} of ${job.max_attempts} failed, and the next one comes later: ${firstLine(last)}`;
    return waitsFor('retry', clause, { until: job.run_after });
  }
  const able = core.workers.all().filter((worker) => !isLeaving(worker) && mayRun(worker, job.model));
  const workers = able.filter(({ session }) => session.config_id === job.config_id);
  if (workers.length === 0 || !workers.every(({ declined }) => declined.has(job.id))) return null;
  return waitsFor('deadline', 'no worker can meet its deadline at its present load', {
    until: job.deadline_at,
    advice: 'Give it a later deadline, or the pool another worker.',
  });
}

function firstLine(text: string): string {
  const line = text.trim().split('\n', 1)[0]!.replace(/\.$/, '');
  return line.length > MOST_OF_ERROR ? `${line.slice(0, MOST_OF_ERROR)}…` : line;
}
