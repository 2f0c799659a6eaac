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
  /** Null: `after` is no batch. */
  listBatches(wanted: BatchesWanted): Promise<{ batches: Batch[]; has_more: boolean } | null>;
  /** Null: there is none. One that is over stays as it is. */
  cancelBatch(id: string, viewer: string | null): Promise<Batch | null>;
}

/** `in_use`: a batch that has not ended reads it. */
export type RemoveFileAnswer = 'removed' | 'unknown' | 'in_use';
