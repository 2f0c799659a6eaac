import type { Batch } from '../../batches/batch.ts';
import type * as answers from '../../protocol/file-answers.ts';
import type { Waiting } from '../../protocol/index.ts';

/** Returns a batch in the form of OpenAI's API. */
export function batchView(batch: Batch, waiting: Waiting | null = null): answers.Batch {
  const { usage, faults, total, completed, failed } = batch;
  const isClosed = (batch.completed_at ?? batch.cancelled_at ?? batch.expired_at) !== null;
  const output = batch.output_lines > 0 ? batch.output_file_id : null;
  const errors = batch.error_lines > 0 ? batch.error_file_id : null;
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    errors: batch.status === 'failed' ? { object: 'list', data: faults } : null,
    input_file_id: batch.input_file_id,
    completion_window: batch.completion_window,
    status: batch.status,
    output_file_id: isClosed ? output : null,
    error_file_id: isClosed ? errors : null,
    partial_output_file_id: isClosed ? null : output,
    partial_error_file_id: isClosed ? null : errors,
    created_at: seconds(batch.created_at),
    in_progress_at: seconds(batch.in_progress_at),
    expires_at: seconds(batch.expires_at),
    finalizing_at: seconds(batch.finalizing_at),
    completed_at: seconds(batch.completed_at),
    failed_at: seconds(batch.failed_at),
    expired_at: seconds(batch.expired_at),
    cancelling_at: seconds(batch.cancelling_at),
    cancelled_at: seconds(batch.cancelled_at),
    request_counts: { total, completed, failed },
    error_counts: batch.error_counts ?? {},
    usage: {
      input_tokens: usage.input_tokens,
      input_tokens_details: { cached_tokens: usage.cached_tokens },
      output_tokens: usage.output_tokens,
      output_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
      total_tokens: usage.input_tokens + usage.output_tokens,
    },
    metadata: batch.metadata,
    ...(waiting !== null && { waiting }),
  };
}

function seconds<T extends number | null>(ms: T): T {
  return (ms === null ? null : Math.floor(ms / 1000)) as T;
}
