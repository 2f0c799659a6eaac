import { type JobView, type RunpodJob, runpodJob, runpodOutput } from '../../protocol/index.ts';

/** @param job with its result */
export function shownJob(job: JobView): RunpodJob {
  return runpodJob(job, outputOf(job));
}

/** All that a finished job yielded. */
export function outputOf(job: JobView): unknown[] {
  return runpodOutput(job.result);
}
