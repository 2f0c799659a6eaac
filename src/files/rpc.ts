import type { FilePurpose } from '../protocol/file-answers.ts';

/** A file as it is known beside its bytes. */
export interface FileRecord {
  id: string;
  /** Null: it was made while no tokens were configured. */
  tenant: string | null;
  filename: string;
  purpose: FilePurpose;
  bytes: number;
  /** Epoch ms */
  created_at: number;
  /** Epoch ms; null: kept until it is deleted. */
  expires_at: number | null;
}

/** Length of the pieces of an upload; the last may be shorter. A row holds at most 2 MB on Cloudflare. */
export const PIECE_BYTES = 128 * 1024;

/** What knows which files jobs have: the queue object of the same id. */
export interface JobFiles {
  /** Until when each is kept at least, epoch ms, to be asked again then; null: its job has it no more. In order. */
  filesKeptUntil(files: { file: string; job: string }[]): Promise<(number | null)[]>;
}

/** Most that one call carries, but for a longer line. */
export const READ_BYTES = 8 * 1024 * 1024;
