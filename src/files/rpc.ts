/** What a stored file is for, as OpenAI's API names it. Ours are `batch` and `user_data`; batches make `batch_output`. */
export const FILE_PURPOSES = ['batch', 'batch_output', 'user_data'] as const;
export type FilePurpose = (typeof FILE_PURPOSES)[number];

/** A file as it is known beside its bytes. */
export interface FileRecord {
  id: string;
  /** Whose it is; null: nobody's, from when no tokens were configured. */
  tenant: string | null;
  filename: string;
  purpose: FilePurpose;
  bytes: number;
  /** Epoch ms */
  created_at: number;
  /** Epoch ms; null: kept until it is deleted. */
  expires_at: number | null;
}

/** How an upload ended. */
export type UploadAnswer =
  | { ok: true; filename: string | null; fields: Record<string, string>; bytes: number }
  | { ok: false; status: 400 | 413; message: string };

/** Header of an upload on its way to its object: most bytes that it may have. */
export const MOST_BYTES_HEADER = 'x-most-bytes';

/**
 * The object of one file. Its bytes come and go by `fetch`: PUT with a multipart form or the bytes as they are answers
 * an UploadAnswer as JSON, GET the content.
 */
export interface FileRpc {
  /** It is listed now, and kept until then, epoch ms; null: until it is removed. */
  keep(expiresAt: number | null): Promise<void>;
  /** Its bytes; null: nothing was ever uploaded, or it is gone. */
  size(): Promise<number | null>;
  /** A part of an uploaded file, at most READ_BYTES; shorter only at its end. */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Lines of an uploaded file, together at most READ_BYTES, or a single one; shorter only at its end. */
  readLines(lines: { offset: number; length: number }[]): Promise<Uint8Array<ArrayBuffer>[]>;
  /** Adds lines whose keys it does not have yet, in one commit. @returns its bytes */
  append(lines: { key: number; bytes: Uint8Array }[]): Promise<number>;
  /** Everything in it is forgotten. */
  remove(): Promise<void>;
}

/** Most that one call carries, but for a longer line. */
export const READ_BYTES = 8 * 1024 * 1024;

/** The name of the object of one file: ids are random, so that no queue can name another's. */
export function fileObjectName(queueId: string, fileId: string): string {
  return `${queueId}/${fileId}`;
}
