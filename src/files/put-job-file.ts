import type { CallsOf } from '../durable/calls.ts';
import { freeBytes } from '../durable/free-bytes.ts';
import type { FileObject } from './object.ts';

/** Bytes of one call. */
const CALL_BYTES = 1024 * 1024;

/** What storing one asks of the object of files. */
export type JobFileCalls = Pick<CallsOf<FileObject>, 'put' | 'keepForJob'>;

/**
 * Stores the payload or a result of a job: durable when this is done, and kept for an hour for the queue to name it.
 * @param call asks the object of files, once more where it restarted
 * @throws Error where its pieces were gone before all of them had come
 */
export async function putJobFile(
  call: <T>(ask: (files: JobFileCalls) => Promise<T>) => Promise<T>,
  file: { id: string; job: string },
  bytes: Uint8Array,
): Promise<void> {
  let isThere = true;
  for (let at = 0, number = 0; isThere && at < bytes.byteLength; at += CALL_BYTES, number++) {
    // Not a part of a buffer: a call would carry all of it.
    const piece = bytes.slice(at, at + CALL_BYTES);
    isThere = await call((files) => files.put(file.id, number, piece));
    freeBytes(piece);
  }
  if (isThere && (await call((files) => files.keepForJob(file.id, file.job)))) return;
  throw new Error(`storing the file ${file.id} took too long: its pieces are gone`);
}
