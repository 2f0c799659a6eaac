import { type JobView, type RunpodJob, runpodJob, runpodOutput } from '../../protocol/index.ts';

/** Returns a job in RunPod's form. @param job with its result */
export function shownJob(job: JobView): RunpodJob {
  return runpodJob(job, outputOf(job));
}

/** Returns all outputs of a finished job. */
export function outputOf(job: JobView): unknown[] {
  return runpodOutput(job.result);
}
