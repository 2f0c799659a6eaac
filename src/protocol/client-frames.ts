import * as z from 'zod';
import { JOBS_PER_SUBMISSION } from './bounds.ts';

/**
 * Frames of the socket on which a program submits many jobs and learns of their ends (`/api/jobs/socket`,
 * docs/jobs.md). Jobs are known by their ids, which the program chooses: it repeats on the next connection whatever
 * a broken one swallowed, which changes nothing.
 */

const ids = z.array(z.string().min(1).max(128)).min(1).max(JOBS_PER_SUBMISSION);

/** Frames that the program sends. */
export const ClientFrame = z.discriminatedUnion('type', [
  /** Submits jobs, each a JobSubmission with an id; they are checked one by one, so that a bad one spoils no other. */
  z.object({ type: z.literal('submit'), jobs: z.array(z.unknown()).min(1).max(JOBS_PER_SUBMISSION) }),
  /** Requests the ends of jobs that were submitted before. */
  z.object({ type: z.literal('listen'), ids }),
  z.object({ type: z.literal('cancel'), ids }),
  /** Says that the program dealt with one `settled` frame, so that the next may come. */
  z.object({ type: z.literal('ack') }),
]);
export type ClientFrame = z.infer<typeof ClientFrame>;

/** The most `settled` frames that may be on their way unacknowledged. */
export const SETTLED_WINDOW = 4;

/** The reason why one of several jobs was not accepted. */
export const SubmissionError = z.object({
  status: z.number().int().describe('The HTTP status it would have alone.'),
  message: z.string(),
  type: z.string(),
  param: z.null(),
  code: z.string().nullable(),
  /** The seconds after which a retry may succeed, with 429 and 503. */
  retry_after_seconds: z.number().optional(),
});
export type SubmissionError = z.infer<typeof SubmissionError>;

/** A JobView. A program reads a result that is too long for a frame at `/api/jobs/{id}`. */
const SettledJob = z.looseObject({
  id: z.string(),
  state: z.string(),
  has_long_result: z.boolean().optional(),
});
export type SettledJob = z.infer<typeof SettledJob>;

/** Frames that the program receives. `settled` is written as text: its `jobs` are JobViews. */
export const ClientAnswer = z.discriminatedUnion('type', [
  /** Answers `submit`, in the order of the jobs. */
  z.object({
    type: z.literal('submitted'),
    answers: z.array(
      z.union([
        z.object({ id: z.string().nullable(), error: SubmissionError }),
        z.object({ id: z.string() }),
      ]),
    ),
  }),
  /** Answers `listen`: the ids under which there is no job, or no longer one. */
  z.object({ type: z.literal('unknown'), ids: z.array(z.string()) }),
  z.object({ type: z.literal('settled'), jobs: z.array(SettledJob) }),
  /** Says that the frame before it was not understood, or that the queue cannot be reached. */
  z.object({ type: z.literal('error'), error: SubmissionError }),
]);
export type ClientAnswer = z.infer<typeof ClientAnswer>;
