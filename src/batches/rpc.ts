import type { FilePage, FilesWanted } from '../files/file-index.ts';
import type { FileRecord } from '../files/rpc.ts';
import type { Batch, NewBatch } from './batch.ts';
import type { BatchesWanted } from './batch-table.ts';

/** What the gateway may ask of a batches object, by RPC. Arguments and answers are plain data. */
export interface BatchesRpc {
  /** A file that was uploaded is there from now on. */
  addFile(file: FileRecord): Promise<void>;
  /** @param viewer whose files are seen; null sees all */
  findFile(id: string, viewer: string | null): Promise<FileRecord | null>;
  /** Null: `after` is no file. */
  listFiles(wanted: FilesWanted): Promise<FilePage | null>;
  removeFile(id: string, viewer: string | null): Promise<RemoveFileAnswer>;
  /**
   * Begins a batch; its input is read afterwards. Null: there is no such file.
   * @param idempotencyKey one that is there under this key is answered instead
   */
  createBatch(batch: NewBatch, idempotencyKey: string | null): Promise<Batch | null>;
  findBatch(id: string, viewer: string | null): Promise<Batch | null>;
  /** Returns the next line of a batch that is not done, or null where there is none or the batch does not run. */
  nextLine(id: string): Promise<NextLine | null>;
  /** Null: `after` is no batch. */
  listBatches(wanted: BatchesWanted): Promise<{ batches: Batch[]; has_more: boolean } | null>;
  /** Null: there is none. One that is over, or ends already, stays as it is. */
  cancelBatch(id: string, viewer: string | null): Promise<Batch | null>;
  /** What all batches have still to run, the window that ends first before the others. */
  backlog(): Promise<Backlog[]>;
}

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
