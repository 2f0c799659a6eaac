import * as z from 'zod';
import { fieldsOf } from './fields.ts';
import type { JobView } from './jobs.ts';

/** The states of a job at RunPod. */
export const RunpodStatus = z.enum([
  'IN_QUEUE',
  'IN_PROGRESS',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'TIMED_OUT',
]);
export type RunpodStatus = z.infer<typeof RunpodStatus>;

/** A job as RunPod's API shows it. Fields that do not apply yet are left out; times in ms. */
export const RunpodJob = z.object({
  id: z.string(),
  status: RunpodStatus,
  /** The time from the submission until a worker got the job. */
  delayTime: z.number().min(0).optional(),
  /** The time from when a worker got the job until its end. */
  executionTime: z.number().min(0).optional(),
  workerId: z.string().optional(),
  /** The number of failed attempts before the newest. */
  retries: z.number().int().min(0).optional(),
  output: z.unknown().optional(),
  error: z.string().optional(),
});
export type RunpodJob = z.infer<typeof RunpodJob>;

export function runpodStatus({ state, error }: JobView): RunpodStatus {
  switch (state) {
    case 'pending':
      return 'IN_QUEUE';
    case 'leased':
      return 'IN_PROGRESS';
    case 'succeeded':
      return 'COMPLETED';
    case 'cancelled':
      return 'CANCELLED';
    case 'expired':
      return 'TIMED_OUT';
    case 'failed':
      // A job with this code has passed its executionTimeout.
      return error?.code === 'deadline' ? 'TIMED_OUT' : 'FAILED';
  }
}

/** Shows a job in RunPod's form. @param output all that the job yielded; null: it is left out */
export function runpodJob(job: JobView, output: unknown[] | null): RunpodJob {
  const status = runpodStatus(job);
  const shown: RunpodJob = { id: job.id, status };
  if (job.leased_at !== null && status !== 'IN_QUEUE') {
    shown.delayTime = between(job.created_at, job.leased_at);
    if (job.settled_at !== null) shown.executionTime = between(job.leased_at, job.settled_at);
    if (job.worker_id !== null) shown.workerId = job.worker_id;
    shown.retries = Math.max(0, job.attempts - (job.worker_id === null ? 0 : 1));
  }
  if (status === 'COMPLETED' && output !== null) shown.output = output;
  if (job.error !== null) shown.error = job.error.message;
  return shown;
}

function between(from: string, to: string): number {
  return Math.max(0, Date.parse(to) - Date.parse(from));
}

/** Returns what a job yielded, as its result has it. */
export function runpodOutput(result: unknown): unknown[] {
  const { output } = fieldsOf(result);
  return Array.isArray(output) ? output : [];
}
