import * as z from 'zod';
import { JOBS_PER_SUBMISSION } from './limits.ts';

/**
 * Frames of the socket on which a program submits many jobs and hears of their ends (`/api/jobs/socket`,
 * docs/protocol.md). Jobs are known by their ids, which the program chooses: whatever a broken connection
 * swallowed is said again on the next one and changes nothing.
 */

const ids = z.array(z.string().min(1).max(128)).min(1).max(JOBS_PER_SUBMISSION);

/** Frames that the program sends. */
export const ClientFrame = z.discriminatedUnion('type', [
  /** Each a JobSubmission with an id; checked one by one, so that a bad one spoils no other. */
  z.object({ type: z.literal('submit'), jobs: z.array(z.unknown()).min(1).max(JOBS_PER_SUBMISSION) }),
  /** Jobs submitted before: their ends are to be told here. */
  z.object({ type: z.literal('listen'), ids }),
  z.object({ type: z.literal('cancel'), ids }),
  /** One `settled` frame was dealt with; the next may come. */
  z.object({ type: z.literal('ack') }),
]);
export type ClientFrame = z.infer<typeof ClientFrame>;

/** `settled` frames that may be on their way unacknowledged. */
export const SETTLED_WINDOW = 4;

/** Why a job was not taken. */
export interface SubmissionError {
  /** As it would be by HTTP. */
  status: number;
  message: string;
  code: string | null;
  /** With 429 and 503. */
  retry_after_seconds?: number;
}

/** Frames that the program is sent. `settled` is written as text: its `jobs` are JobViews. */
export type ClientAnswer =
  /** In the order of the jobs. Another state than `pending` or `leased`: `settled` follows. */
  | { type: 'submitted'; answers: ({ id: string } | { id: string | null; error: SubmissionError })[] }
  /** Answer to `listen`: under these ids there is no job (any more). */
  | { type: 'unknown'; ids: string[] }
  | { type: 'settled'; jobs: SettledJob[] }
  /** The frame before it was not understood, or the queue cannot be reached. */
  | { type: 'error'; error: SubmissionError };

/** A JobView; a result too long for a frame is read at `/api/jobs/{id}`. */
export interface SettledJob {
  id: string;
  state: string;
  has_long_result?: boolean;
  [field: string]: unknown;
}
