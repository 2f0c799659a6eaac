/** The shapes of a batches object's arguments and answers, which are plain data. */

/**
 * The lines that are still to be run, of all batches that ask for one model within one window. They may wait until
 * there is only just time to run them before `window_ends_at`.
 */
export interface Backlog {
  /** The model, by whatever name callers use, which chooses the pool; null: the only one there is. */
  model: string | null;
  /** The lines that are not done. */
  lines: number;
  /** The lines among them that the queue has, pending or running: its own numbers count them, at priority -10. */
  in_queue: number;
  /** The end of the window, epoch ms. */
  window_ends_at: number;
}

/** The line of a batch whose turn is next. */
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
