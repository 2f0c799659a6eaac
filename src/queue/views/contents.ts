import { maySee, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { InBucket, payloadFile, resultKey } from '../store/blob-table.ts';
import { readPayload, readResult } from '../store/jobs-table.ts';

/**
 * The payload or the result of a stored job, as the text that was stored.
 * @param reader whose contents may be read
 * @returns null: there is none, or none for this reader
 */
export function contents(
  core: Core,
  jobId: string,
  kind: 'payload' | 'result',
  reader: Viewer,
): string | InBucket | null {
  const job = core.stored.find(jobId);
  if (job === null || !maySee(reader, job.tenant)) return null;
  if (kind === 'result' && job.state !== 'succeeded') return null;
  const text = kind === 'payload' ? readPayload(core.sql, jobId) : readResult(core.sql, jobId);
  if (text !== null) return text;
  const key = kind === 'payload' ? payloadFile(core.sql, jobId)?.key : resultKey(core.sql, jobId);
  return key ? new InBucket(key) : null;
}
