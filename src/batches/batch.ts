import type { BatchStatus } from '../protocol/file-answers.ts';

export function isOver(status: BatchStatus): boolean {
  return status === 'failed' || status === 'completed' || status === 'cancelled' || status === 'expired';
}

/** Returns whether the batch's window is over, or was over before the clock was set back. @param now epoch ms */
export function isExpiring({ is_expiring, expires_at }: Batch, now: number): boolean {
  return is_expiring || now >= expires_at;
}

/** A reason why a batch failed before any of it ran. */
export interface LineFault {
  code: string;
  message: string;
  param: string | null;
  /** The number of the line, from 1; null: the fault is about the file. */
  line: number | null;
}

/** The sums of the tokens of all lines that succeeded. */
export interface BatchUsage {
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
}

/** A batch as it is requested. */
export interface NewBatch {
  id: string;
  tenant: string | null;
  /** The name of the token that requests the batch. */
  token_name: string | null;
  /** The models that the token may ask for, as patterns; left out: all. */
  token_models?: readonly string[];
  /** The paths that the token may ask for, as patterns; left out: all. */
  token_routes?: readonly string[];
  input_file_id: string;
  /** The path of the route that every line asks for, or ANY_ENDPOINT. */
  endpoint: string;
  /** The window as the caller wrote it: "24h". */
  completion_window: string;
  metadata: Record<string, string> | null;
  /** The time for which the batch's files are stored after it ended, ms. */
  output_kept_ms: number;
  /** The most lines that the batch may have. */
  most_lines: number;
  /** The ids of the files that the batch writes, if it has anything to write. */
  output_file_id: string;
  error_file_id: string;
  /** The time of creation, epoch ms; `expires_at` is the end of the window. */
  created_at: number;
  expires_at: number;
}

/** A batch in its present state. All times are in epoch ms; null: the batch has not reached that state. */
export interface Batch extends NewBatch {
  status: BatchStatus;
  /**
   * Whether the batch's window has ended and its lines are called back; stays true even if the clock is set back then.
   */
  is_expiring: boolean;
  faults: LineFault[];
  /**
   * Whether no worker was known when the input was read: the runner then asks which models are served until one is
   * known.
   */
  is_unchecked?: boolean;
  /** The models that nobody serves: their lines are recorded as failed. Left out: none. */
  unserved?: ({ model: string } & Unserved)[];
  /** The bytes and lines of the input that have been read, and the lines among them that are not blank. */
  scanned_bytes: number;
  scanned_lines: number;
  found_lines: number;
  total: number;
  completed: number;
  failed: number;
  /** The lines and bytes written to each file; a file without lines does not exist. */
  output_lines: number;
  output_bytes: number;
  error_lines: number;
  error_bytes: number;
  /** The number of lines in the error file by their error: the status of an answer, or a code. */
  error_counts: Record<string, number>;
  usage: BatchUsage;
  in_progress_at: number | null;
  finalizing_at: number | null;
  completed_at: number | null;
  failed_at: number | null;
  expired_at: number | null;
  cancelling_at: number | null;
  cancelled_at: number | null;
}

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 };
/** The longest window, since a longer one would outlive the batch's files, ms. */
const LONGEST_WINDOW_MS = 30 * UNITS_MS.d;

/** Returns a completion window in ms; null if the text is none. "24h" is OpenAI's only window, others are ours. */
export function windowMs(text: string): number | null {
  const [, number, unit] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? [];
  if (number === undefined) return null;
  const ms = Number(number) * UNITS_MS[unit as keyof typeof UNITS_MS];
  return ms <= LONGEST_WINDOW_MS ? ms : null;
}

/** The shapes of a batches object's arguments and answers, which are plain data. */

/**
 * The lines still to be run, of all batches that ask for one model within one window. They may wait until there is only
 * just time to run them before `window_ends_at`.
 */
export interface Backlog {
  /** The model, by whatever name callers use, which chooses the pool; null: the only one there is. */
  model: string | null;
  /** The lines that are not done. */
  lines: number;
  /**
   * The lines among them that the queue has, pending or running: the queue's own numbers count them, at priority -10.
   */
  in_queue: number;
  /** The end of the window, epoch ms. */
  window_ends_at: number;
}

/** The next line of a batch. */
export interface NextLine {
  /** The model that the line names; null: none. */
  model: string | null;
  /** The id of the line's job; null: the queue does not have it yet. */
  job_id: string | null;
  /** The reason why the queue does not accept the line, a clause; null: the queue accepts it, or was not asked. */
  why: string | null;
}

/** The answer to a removal. `in_use`: a batch that has not ended reads the file, or still writes it. */
export type RemoveFileAnswer = 'removed' | 'unknown' | 'in_use';

/** The reason why lines for a model cannot run. `model_required`: the lines name no model, and there are several. */
export interface Unserved {
  code: 'model_not_found' | 'model_required';
  message: string;
}
