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

/**
 * The object that holds the bytes of a queue id's files, by their ids, and lets them expire. Every call may be made
 * twice with the same effect as once.
 */
export interface FileRpc {
  /**
   * Stores a piece of an upload, which is removed unless the next piece, or `keep`, comes within minutes.
   * @param number from 0; the first begins the file
   * @returns false: what came before is gone
   */
  put(fileId: string, number: number, piece: Uint8Array): Promise<boolean>;
  /** Nothing is added to it any more, and it is kept until then, epoch ms; null: until it is removed. */
  keep(fileId: string, expiresAt: number | null): Promise<void>;
  /**
   * Nothing is added to it any more, and it is the payload or a result of that job: kept for an hour, and then as long
   * as the queue says (`JobFiles`).
   * @returns false: what was put is gone
   */
  keepForJob(fileId: string, jobId: string): Promise<boolean>;
  /** Its bytes; null: nothing was ever stored under this id, or it is gone. */
  size(fileId: string): Promise<number | null>;
  /** A part of an uploaded file, at most READ_BYTES; shorter at its end, and empty where its bytes are lost. */
  read(fileId: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Lines of an uploaded file, together at most READ_BYTES, or a single one; each as `read`. */
  readLines(fileId: string, lines: { offset: number; length: number }[]): Promise<Uint8Array<ArrayBuffer>[]>;
  /** Adds lines whose keys it does not have yet, in one commit. @returns its bytes */
  append(fileId: string, lines: { key: number; bytes: Uint8Array }[]): Promise<number>;
  remove(fileId: string): Promise<void>;
}

/** What knows which files jobs have: the queue object of the same id. */
export interface JobFiles {
  /** Until when each is kept at least, epoch ms, to be asked again then; null: its job has it no more. In order. */
  filesKeptUntil(files: { file: string; job: string }[]): Promise<(number | null)[]>;
}

/** Most that one call carries, but for a longer line. */
export const READ_BYTES = 8 * 1024 * 1024;
