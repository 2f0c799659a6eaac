import type { FilePurpose } from '../protocol/file-answers.ts';

/** The facts about a file beside its bytes. */
export interface FileRecord {
  id: string;
  /** The tenant that owns the file; null: it was created while no tokens were configured. */
  tenant: string | null;
  filename: string;
  purpose: FilePurpose;
  bytes: number;
  /** The time of creation, epoch ms. */
  created_at: number;
  /** The time at which the file expires, epoch ms; null: it is kept until it is deleted. */
  expires_at: number | null;
}

/** The length of the pieces of an upload; the last may be shorter. A row holds at most 2 MB on Cloudflare. */
export const PIECE_BYTES = 128 * 1024;

/** Knows which files jobs have: the queue object of the same id. */
export interface JobFiles {
  /**
   * Returns, in order, until when each file is kept at least, epoch ms; then the queue is asked again. Null: its job no
   * longer has it.
   */
  filesKeptUntil(files: { file: string; job: string }[]): Promise<(number | null)[]>;
}

/** The most bytes that one call carries, except for a longer line. */
export const READ_BYTES = 8 * 1024 * 1024;
