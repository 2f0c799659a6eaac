import { beginUpload, mayStoreFile, readFile, storeFile } from './attempts/tickets.ts';
import type { FileTicket, FileUploadAnswer, Viewer } from './rpc.ts';
import type { Core } from './state/state.ts';
import {
  abandonFiles,
  type BucketFile,
  confirmDeletions,
  type Deletion,
  type InBucket,
} from './store/blob-table.ts';
import { contents } from './verbs/contents.ts';
import { beginPayload, type NewJob } from './verbs/submit.ts';

/** Payloads and results that go by reference. None of this frees a slot or makes a job ready. */
export class Files {
  readonly #core: Core;
  constructor(core: Core) {
    this.#core = core;
  }

  /** The payload of an attempt. */
  read(ticket: FileTicket, form: 'own' | 'base'): ReturnType<typeof readFile> {
    return readFile(this.#core, ticket, form);
  }

  /** What callers are shown; null: there is none, or none for this reader. */
  contents(jobId: string, kind: 'payload' | 'result', reader: Viewer): string | InBucket | null {
    return contents(this.#core, jobId, kind, reader);
  }

  /** Whether a result of this attempt would be kept now. */
  mayStore(ticket: FileTicket): FileUploadAnswer {
    return mayStoreFile(this.#core, ticket);
  }

  store(ticket: FileTicket, result: Parameters<typeof storeFile>[2]): FileUploadAnswer {
    return storeFile(this.#core, ticket, result);
  }

  /** A payload is about to be put into the bucket; false: its job would not be taken, or is there. */
  beginPayload(job: NewJob, file: BucketFile): boolean {
    return beginPayload(this.#core, job, file);
  }

  beginUpload(ticket: FileTicket, key: string): FileUploadAnswer {
    return beginUpload(this.#core, ticket, key);
  }

  abandon(files: readonly BucketFile[]): void {
    abandonFiles(this.#core, files);
  }

  confirmDeletions(deletion: Deletion): void {
    confirmDeletions(this.#core, deletion);
  }
}
