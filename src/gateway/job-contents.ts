import { maySee, type ToldJob, type Viewer } from '../queue/rpc.ts';

/**
 * Returns a job as a caller sees it: without its result where that caller may not read it.
 * @param reader the tenant whose contents the caller may read (auth.ts)
 */
export function withheldFrom(reader: Viewer, job: ToldJob): ToldJob {
  if (maySee(reader, job.tenant)) return job;
  const hasResult = job.result !== null || job.result_file !== undefined;
  return { ...withoutResult(job), ...(hasResult && { withheld: true }) };
}

export function withoutResult({ result_file: _, result_text: __, ...job }: ToldJob): ToldJob {
  return { ...job, result: null };
}
