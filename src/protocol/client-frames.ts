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

/** Of a job that was not taken, among several. */
export const SubmissionError = z.object({
  status: z.number().int().describe('The HTTP status it would have alone.'),
  message: z.string(),
  type: z.string(),
  param: z.null(),
  code: z.string().nullable(),
  /** With 429 and 503. */
  retry_after_seconds: z.number().optional(),
});
export type SubmissionError = z.infer<typeof SubmissionError>;

/** A JobView; a result too long for a frame is read at `/api/jobs/{id}`. */
const SettledJob = z.looseObject({
  id: z.string(),
  state: z.string(),
  has_long_result: z.boolean().optional(),
});
export type SettledJob = z.infer<typeof SettledJob>;

/** Frames that the program is sent. `settled` is written as text: its `jobs` are JobViews. */
export const ClientAnswer = z.discriminatedUnion('type', [
  /** In the order of the jobs. Another state than `pending` or `leased`: `settled` follows. */
  z.object({
    type: z.literal('submitted'),
    answers: z.array(
      z.union([
        z.object({ id: z.string().nullable(), error: SubmissionError }),
        z.object({ id: z.string() }),
      ]),
    ),
  }),
  /** Answer to `listen`: under these ids there is no job (any more). */
  z.object({ type: z.literal('unknown'), ids: z.array(z.string()) }),
  z.object({ type: z.literal('settled'), jobs: z.array(SettledJob) }),
  /** The frame before it was not understood, or the queue cannot be reached. */
  z.object({ type: z.literal('error'), error: SubmissionError }),
]);
export type ClientAnswer = z.infer<typeof ClientAnswer>;
