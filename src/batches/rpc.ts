/** Shapes of what a batches object is asked and answers: plain data. */

/**
 * Lines that are still to be run, of all batches that ask for one model within one window. They may wait until there is
 * only just time to run them: `window_ends_at`.
 */
export interface Backlog {
  /** Chooses the pool, by whatever name callers use; null: the only one there is. */
  model: string | null;
  /** Those that are not done. */
  lines: number;
  /** Of these, the ones that the queue has, waiting or running: its own numbers count them, at priority -10. */
  in_queue: number;
  /** Epoch ms */
  window_ends_at: number;
}

/** The line of a batch whose turn is next. */
export interface NextLine {
  /** Null: the line names no model. */
  model: string | null;
  /** Id of the line's job; null: the queue does not have it yet. */
  job_id: string | null;
  /** Why the queue does not take the line, a clause; null: the queue takes it, or was not asked. */
  why: string | null;
}

/** `in_use`: a batch that has not ended reads it. */
export type RemoveFileAnswer = 'removed' | 'unknown' | 'in_use';
