import type { JobView } from '../protocol/index.ts';
import type { Batch } from './batch.ts';
import type { StoredLine } from './line-table.ts';
import { type LineOutcome, type NOT_RUN, notRun, outcomeOf } from './output-line.ts';

/**
 * Returns the outcome of a line whose job has settled. It follows from what is stored alone, since the line may be in
 * its file already, and is counted as what it was then.
 * @param waited what lines of the batch waited for when it ended early, a clause; null: nobody can tell
 */
export function settledOutcome(
  batch: Batch,
  line: StoredLine,
  job: JobView,
  waited: string | null,
): LineOutcome {
  const id = requestId(batch, line);
  const isCancelled = job.state === 'cancelled';
  const cause = job.leased_at === null ? waited : null;
  if (isCancelled && batch.status === 'cancelling') return notRun(line.custom_id, id, 'cancelled', cause);
  // Otherwise an operator cancelled the job itself, or purged the queue: the job's error says so.
  const isExpired = job.state === 'expired' || (isCancelled && batch.is_expiring);
  return isExpired ? notRun(line.custom_id, id, 'expired', cause) : outcomeOf(line.custom_id, id, job);
}

/** Returns the outcome of a line whose job the queue would never accept, or that names a model that nobody serves. */
export function refusal(
  batch: Batch,
  line: StoredLine,
  message: string,
  code = 'invalid_request',
): LineOutcome {
  const error = { message, code, retryable: false };
  return outcomeOf(line.custom_id, requestId(batch, line), {
    state: 'failed',
    result: null,
    error,
  } as JobView);
}

/** Returns the outcome of a line for a model that nobody served when the batch was made, or null where it can run. */
export function unservedOutcome(batch: Batch, line: StoredLine): LineOutcome | null {
  const unserved = batch.unserved?.find(({ model }) => model === line.model);
  return unserved ? refusal(batch, line, unserved.message, unserved.code) : null;
}

/**
 * Returns the outcome of a line that was not submitted when its batch ended.
 * @param cause what the line waited for; null: its turn
 */
export function notSubmitted(
  batch: Batch,
  line: StoredLine,
  why: keyof typeof NOT_RUN,
  cause: string | null,
): LineOutcome {
  return unservedOutcome(batch, line) ?? notRun(line.custom_id, requestId(batch, line), why, cause);
}

function requestId(batch: Batch, line: StoredLine): string {
  return `batch_req_${batch.id.slice('batch_'.length)}_${line.number}`;
}

/** The most kinds of errors that are counted separately. */
const MOST_KINDS = 20;

/** Counts a line that was written, in the numbers of its batch. */
export function count(batch: Batch, { file, isTried, kind, usage }: LineOutcome): void {
  if (file === 'output') {
    batch.output_lines += 1;
    batch.completed += 1;
  } else {
    batch.error_lines += 1;
    if (isTried) batch.failed += 1;
    const counts = batch.error_counts;
    const name =
      kind === null || (counts[kind] === undefined && Object.keys(counts).length >= MOST_KINDS)
        ? 'other'
        : kind;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  for (const name of Object.keys(batch.usage) as (keyof typeof usage)[]) batch.usage[name] += usage[name];
}
