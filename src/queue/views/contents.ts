import { type Contents, maySee, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { readPayload, readResult } from '../store/jobs-table.ts';

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
