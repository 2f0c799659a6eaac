import * as z from 'zod';
import { JobView } from './jobs.ts';

/** What the API answers about jobs beside their views. Times are ISO strings of the queue's clock. */

const time = z.iso.datetime();
const count = z.number().int().min(0);

const ShortError = z.object({ code: z.string(), message: z.string() });

/** A job in a list: without payload and result, its error shortened. */
export const ListedJob = JobView.omit({
  fence_token: true,
  trace_id: true,
  result: true,
  withheld: true,
  error: true,
  attempt_errors: true,
}).extend({ error: ShortError.nullable() });
export type ListedJob = z.infer<typeof ListedJob>;

/** One step of a job's ledger. */
const LedgerStep = z.object({
  at: time,
  /** The name of the step; queue/events/event.ts lists them. */
  step: z.string(),
  attempt: count.describe('From 1; 0 before the first.'),
  fence_token: count,
  worker_id: z.string().nullable(),
  detail: z.string().nullable(),
});
export type LedgerStep = z.infer<typeof LedgerStep>;

/** A job's ledger. */
export const LedgerView = z.object({ job_id: z.string(), steps: z.array(LedgerStep) });
export type LedgerView = z.infer<typeof LedgerView>;
