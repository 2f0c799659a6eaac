import type { BatchStatus } from '../protocol/file-answers.ts';
import type { Unserved } from './ports.ts';

export function isOver(status: BatchStatus): boolean {
  return status === 'failed' || status === 'completed' || status === 'cancelled' || status === 'expired';
}

/** Whether its window is over, or was so before the clock was set back. @param now epoch ms */
export function isExpiring({ is_expiring, expires_at }: Batch, now: number): boolean {
  return is_expiring || now >= expires_at;
}

/** Why a batch failed before any of it ran. */
export interface LineFault {
  code: string;
  message: string;
  param: string | null;
  /** From 1; null: it is about the file. */
  line: number | null;
}

/** Tokens of all lines that succeeded. */
export interface BatchUsage {
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
}

/** What is asked for. */
export interface NewBatch {
  id: string;
  tenant: string | null;
  /** Name of the token that asks. */
  token_name: string | null;
  /** Models that it may ask for, as patterns; left out: all. */
  token_models?: readonly string[];
  /** Paths that the token may ask for, as patterns; left out: all. */
  token_routes?: readonly string[];
  input_file_id: string;
  /** Path of the route that every line asks for, or ANY_ENDPOINT. */
  endpoint: string;
  /** As its caller wrote it: "24h". */
  completion_window: string;
  metadata: Record<string, string> | null;
  /** How long its files are kept after it ended, ms. */
  output_kept_ms: number;
  /** Lines that it may have. */
  most_lines: number;
  /** Ids of the files that it writes, if it has anything to write. */
  output_file_id: string;
  error_file_id: string;
  /** Epoch ms */
  created_at: number;
  expires_at: number;
}

/** A batch as it stands. All times in epoch ms, null: it has not come to that. */
export interface Batch extends NewBatch {
  status: BatchStatus;
  /** Its window ended and its lines are called back, also when the clock is set back then. */
  is_expiring: boolean;
  faults: LineFault[];
  /** Whether no worker was known when the input was read: its models are asked about until one is known. */
  is_unchecked?: boolean;
  /** Models that nobody serves: their lines are written down as failed. Left out: none. */
  unserved?: ({ model: string } & Unserved)[];
  /** Bytes and lines of its input that have been read, and the lines among them that are not blank. */
  scanned_bytes: number;
  scanned_lines: number;
  found_lines: number;
  total: number;
  completed: number;
  failed: number;
  /** Lines and bytes written to each file: a file without any is none. */
  output_lines: number;
  output_bytes: number;
  error_lines: number;
  error_bytes: number;
  /** Lines of the error file by what is wrong: a status of an answer, or a code. */
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
/** A longer window would outlive the batch's files. */
const LONGEST_WINDOW_MS = 30 * UNITS_MS.d;

/** A completion window in ms: "24h" is OpenAI's only one, others are ours. Null: it is none. */
export function windowMs(text: string): number | null {
  const [, number, unit] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? [];
  if (number === undefined) return null;
  const ms = Number(number) * UNITS_MS[unit as keyof typeof UNITS_MS];
  return ms <= LONGEST_WINDOW_MS ? ms : null;
}
