import type { FilePage, FilesWanted } from '../files/file-index.ts';
import type { FileRecord } from '../files/rpc.ts';

/** What the gateway may ask of a batches object, by RPC. Arguments and answers are plain data. */
export interface BatchesRpc {
  /** A file that was uploaded is there from now on. */
  addFile(file: FileRecord): Promise<void>;
  /** @param viewer whose files are seen; null sees all */
  findFile(id: string, viewer: string | null): Promise<FileRecord | null>;
  /** Null: `after` is no file. */
  listFiles(wanted: FilesWanted): Promise<FilePage | null>;
  removeFile(id: string, viewer: string | null): Promise<RemoveFileAnswer>;
}

/** `in_use`: a batch that has not ended reads it. */
export type RemoveFileAnswer = 'removed' | 'unknown' | 'in_use';
