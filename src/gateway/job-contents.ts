import type { JobView } from '../protocol/index.ts';
import { maySee, type Viewer } from '../queue/rpc.ts';

/**
 * A job as a caller sees it: without its result where that caller may not read it.
 * @param reader whose contents they may read (auth.ts)
 */
export function withheldFrom<View extends object>(reader: Viewer, job: View): View {
  const { tenant, result } = job as Partial<JobView>;
  if (tenant === undefined || maySee(reader, tenant)) return job;
  return { ...job, result: null, ...(result !== null && { withheld: true }) };
}
