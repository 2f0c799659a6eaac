import * as z from 'zod';
import { Waiting } from './waiting.ts';

/** Defines what OpenAI's API shows of files and batches; `partial_…` and `error_counts` of a batch are ours. */

/** The purposes of stored files: callers upload `batch` and `user_data`, batches make `batch_output`. */
export const FILE_PURPOSES = ['batch', 'batch_output', 'user_data'] as const;
export type FilePurpose = (typeof FILE_PURPOSES)[number];

/**
 * The states of a batch of requests, as in OpenAI's API: the lines of an input file, each a job of its own.
 *
 * - `validating`   its lines are read. → `in_progress`, `failed` (a line is wrong), `cancelling`, `expired`
 * - `in_progress`  lines are run. → `finalizing` (all are done), `cancelling`, `expired`
 * - `finalizing`   its files are closed. → `completed`
 * - `cancelling`   what runs may end within a moment, the rest is called back. → `cancelled`
 * - `failed`, `completed`, `cancelled`, `expired` are final.
 *
 * After every commit the batch's row says what to do next, so that a step can be repeated after a crash.
 */
const BATCH_STATUSES = [
  'validating',
  'in_progress',
  'finalizing',
  'cancelling',
  'failed',
  'completed',
  'cancelled',
  'expired',
] as const;
export type BatchStatus = (typeof BATCH_STATUSES)[number];

const seconds = z.number().int();

/** A page of a list. */
function listOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  });
}

export const StoredFile = z.object({
  id: z.string(),
  object: z.literal('file'),
  bytes: z.number().int(),
  created_at: seconds,
  expires_at: seconds.nullable(),
  filename: z.string(),
  purpose: z.enum(FILE_PURPOSES),
  status: z.literal('processed'),
  status_details: z.null(),
});
export type StoredFile = z.infer<typeof StoredFile>;

export const StoredFileList = listOf(StoredFile);

export const Batch = z.object({
  id: z.string(),
  object: z.literal('batch'),
  endpoint: z.string(),
  errors: z
    .object({
      object: z.literal('list'),
      data: z.array(
        z.object({
          code: z.string(),
          message: z.string(),
          param: z.string().nullable(),
          line: z.number().int().nullable(),
        }),
      ),
    })
    .nullable(),
  input_file_id: z.string(),
  completion_window: z.string(),
  status: z.enum(BATCH_STATUSES),
  output_file_id: z.string().nullable(),
  error_file_id: z.string().nullable(),
  partial_output_file_id: z.string().nullable().describe('While it runs: what there is of the output.'),
  partial_error_file_id: z.string().nullable(),
  created_at: seconds,
  in_progress_at: seconds.nullable(),
  expires_at: seconds,
  finalizing_at: seconds.nullable(),
  completed_at: seconds.nullable(),
  failed_at: seconds.nullable(),
  expired_at: seconds.nullable(),
  cancelling_at: seconds.nullable(),
  cancelled_at: seconds.nullable(),
  request_counts: z.object({
    total: z.number().int(),
    completed: z.number().int(),
    failed: z.number().int(),
  }),
  error_counts: z
    .record(z.string(), z.number().int())
    .describe('Lines of the error file by the status of their answer, or their code.'),
  usage: z.object({
    input_tokens: z.number().int(),
    input_tokens_details: z.object({ cached_tokens: z.number().int() }),
    output_tokens: z.number().int(),
    output_tokens_details: z.object({ reasoning_tokens: z.number().int() }),
    total_tokens: z.number().int(),
  }),
  metadata: z.record(z.string(), z.string()).nullable(),
  waiting: Waiting.optional().describe('What its next line waits for, while none of them runs.'),
});
export type Batch = z.infer<typeof Batch>;

export const BatchList = listOf(Batch);
export type BatchList = z.infer<typeof BatchList>;
