import * as z from 'zod';
import { BATCH_STATUSES } from '../../batches/batch.ts';
import { FILE_PURPOSES } from '../../files/rpc.ts';

const seconds = z.number().int();

/** As OpenAI's API shows a file. */
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

export const StoredFileList = z.object({
  object: z.literal('list'),
  data: z.array(StoredFile),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});

/** As OpenAI's API shows a batch. */
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
});

export const BatchList = z.object({
  object: z.literal('list'),
  data: z.array(Batch),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});
