import type { CallsOf } from '../durable/calls.ts';
import { freeBytes } from '../durable/free-bytes.ts';
import type { FileObject } from './object.ts';

/** The most bytes of one call. */
const CALL_BYTES = 1024 * 1024;

/** The calls of the object of files by which a job's file is stored. */
export type JobFileCalls = Pick<CallsOf<FileObject>, 'put' | 'keepForJob'>;

/**
 * Stores the payload or a result of a job. It is durable when this resolves, and stored for an hour for the queue to
 * name it.
 * @param call calls the object of files, once more if it restarted
 * @throws Error if earlier pieces were gone before all had arrived
 */
export async function putJobFile(
  call: <T>(ask: (files: JobFileCalls) => Promise<T>) => Promise<T>,
  file: { id: string; job: string },
  bytes: Uint8Array,
): Promise<void> {
  let isThere = true;
  for (let at = 0, number = 0; isThere && at < bytes.byteLength; at += CALL_BYTES, number++) {
    // The piece is copied, since a call would carry the whole buffer.
    const piece = bytes.slice(at, at + CALL_BYTES);
    isThere = await call((files) => files.put(file.id, number, piece));
    freeBytes(piece);
  }
  if (isThere && (await call((files) => files.keepForJob(file.id, file.job)))) return;
  throw new Error(`storing the file ${file.id} took too long: its pieces are gone`);
}
