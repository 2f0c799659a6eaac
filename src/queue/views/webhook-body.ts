import { keepMembers, runpodJob, runpodOutput, writeJson } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';
import { readResult, type StoredJob } from '../store/jobs-table.ts';

/**
 * Returns the body of the post about a settled job; null if the job is forgotten. It holds a result that lies in the
 * row of the job, or the address of a longer result, relative to the queue's. A job in RunPod's form is posted in that
 * form to its own webhook; the queue's webhook gets all jobs in one form.
 */
export function webhookBody(core: Core, jobId: string): string | null {
  const job = core.stored.find(jobId);
  if (job === null || job.settled_at === null) return null;
  if (job.job_type === 'runpod' && job.webhook !== null) return runpodBody(core, job);
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
