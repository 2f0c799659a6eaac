import { limits } from '../../protocol/index.ts';
import type { NewJob } from '../commands/submit.ts';
import { basePayload } from '../peers/job-frame.ts';
import type { Queue } from '../queue.ts';
import {
  BUCKET_UNREADABLE,
  type FileTicket,
  type FileUploadAnswer,
  type HeardAnswer,
  type LongText,
  packText,
  type Sent,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
  unpackText,
  type Viewer,
} from '../rpc.ts';
import { type BucketFile, type Deletion, InBucket } from '../store/blob-table.ts';
import type { Ports } from '../store/ports.ts';
import type { CallName } from './commits.ts';

/** The part of an R2Bucket that is used here. */
export interface Bucket {
  put(key: string, bytes: Uint8Array): Promise<unknown>;
  get(key: string): Promise<{ arrayBuffer(): Promise<ArrayBuffer> } | null>;
  /** At most 1000. */
  delete(keys: string[]): Promise<void>;
}

interface TextCallPorts {
  queue: Queue;
  /** Null: every text stays in rows. */
  bucket: Bucket | null;
  /** Before every key: queues may share a bucket. */
  prefix: string;
  /** Runs what writes and commits it; later statements of others may be in the same commit. */
  commit<T>(work: () => T): Promise<T>;
  /** The same for so many jobs of a program. */
  submit<T>(jobs: number, work: () => T, call: CallName): Promise<T>;
  log: Ports['log'];
}

const UNBOUND = 'no bucket is bound as FILES now: bind it again';

type Bytes = Uint8Array<ArrayBuffer>;
type FileBytes = { ok: true; bytes: Bytes } | Extract<FileUploadAnswer, { ok: false }>;

/**
 * The queue's calls that carry texts, with the bucket where one is bound: what is too long for one row goes
 * there. One row is cheaper than an object of the bucket, and quicker.
 *
 * A key is committed before its bytes are put, and again when they are there (blob-table.ts); a text that the
 * bucket does not take is stored in rows, as without a bucket.
 */
export class TextCalls {
  readonly #ports: TextCallPorts;
  constructor(ports: TextCallPorts) {
    this.#ports = ports;
  }

  async submit(sent: readonly Sent<SubmitJob>[], ids = newIds(sent)): Promise<(SubmitAnswer | Unserved)[]> {
    const answers = await this.#submit(sent, ids, (jobs) => this.#ports.queue.submit(jobs, ids));
    for (const answer of answers) {
      if (!answer.ok) continue;
      const job = await this.withResult(answer.job);
      // It was there, and its time to be forgotten came.
      if (job === null) return this.submit(sent, ids);
      answer.job = job;
    }
    return answers;
  }

  submitAndListen(sent: readonly Sent<SubmitJob>[], listener: string): Promise<(HeardAnswer | Unserved)[]> {
    const ids = newIds(sent);
    return this.#submit(sent, ids, (jobs) => this.#ports.queue.do('submitAndListen', jobs, ids, listener));
  }

  async #submit<T>(
    sent: readonly Sent<SubmitJob>[],
    ids: readonly string[],
    submit: (jobs: NewJob[]) => T,
  ): Promise<T> {
    const { queue } = this.#ports;
    const jobs: NewJob[] = sent.map((job) => ({ ...job, payload: unpackText(job.payload) }));
    const files = await this.#putPayloads(jobs, sent, ids);
    const work = () => {
      const answers = submit(jobs);
      queue.do('abandonFiles', files);
      return answers;
    };
    return this.#ports.submit(sent.length, work, `submit ${sent.map(({ id }) => id).join()}`);
  }

  async readFile(ticket: FileTicket, form: 'own' | 'base'): Promise<FileBytes> {
    const read = () => this.#ports.queue.read('readFile', ticket, form);
    const answer = read();
    if (!answer.ok) return answer;
    if ('text' in answer) return { ok: true, bytes: encode(answer.text) };
    const bytes = await this.#get(answer.key);
    if (bytes === null) {
      const now = read();
      if (!now.ok) return now;
      throw new Error(`the bucket has lost "${answer.key}", the payload of job ${ticket.job_id}`);
    }
    if (form === 'own') return { ok: true, bytes };
    const text = basePayload(answer.job_type, new TextDecoder().decode(bytes));
    return text === null ? { ok: false, reason: 'unknown' } : { ok: true, bytes: encode(text) };
  }

  /** Checked before the put, to store nothing in vain, and again after it, since the job may have changed meanwhile. */
  async storeFile(ticket: FileTicket, bytes: Uint8Array): Promise<FileUploadAnswer> {
    const { queue, bucket, commit } = this.#ports;
    const text = () => new TextDecoder().decode(bytes);
    if (bucket === null || bytes.byteLength <= limits.ROW_TEXT_CHARACTERS) {
      return commit(() => queue.do('storeFile', ticket, text()));
    }
    const file: BucketFile = { key: this.#newKey(), owner: { kind: 'job', id: ticket.job_id } };
    const begun = await commit(() => queue.do('beginUpload', ticket, file.key));
    if (!begun.ok) return begun;
    const isPut = await this.#put(bucket, file.key, bytes);
    return commit(() => {
      const answer = queue.do('storeFile', ticket, isPut ? { key: file.key, text } : text());
      queue.do('abandonFiles', [file]);
      return answer;
    });
  }

  /** A view with the result that lies in the bucket, in the form `unpackView` reads. */
  async withResult<View extends { id: string }>(view: View | null): Promise<View | null> {
    const result = view !== null && 'result' in view ? view.result : null;
    if (view === null || !(result instanceof InBucket)) return view;
    const bytes = await this.#get(result.key);
    if (bytes !== null) return { ...view, result: bytes };
    if (this.#ports.queue.read('get', view.id, null) === null) return null;
    throw new Error(`the bucket has lost "${result.key}", the result of job ${view.id}`);
  }

  /** The payload or the result of a job; null: there is none, or none for this reader. */
  async contents(jobId: string, kind: 'payload' | 'result', reader: Viewer): Promise<LongText | null> {
    const text = this.#ports.queue.read('contents', jobId, kind, reader);
    return text instanceof InBucket ? await this.#get(text.key) : text && packText(text);
  }

  /** Never throws: what is not confirmed comes again. */
  async delete(deletion: Deletion): Promise<void> {
    const { queue, bucket, commit, log } = this.#ports;
    const { keys } = deletion;
    if (keys.length === 0) return;
    try {
      if (bucket === null) throw new Error(UNBOUND);
      await bucket.delete(keys);
      await commit(() => queue.do('confirmDeletions', deletion));
    } catch (error) {
      log('warn', 'the bucket did not delete what is not needed any more; trying again later', {
        keys: keys.length,
        error: String(error),
      });
    }
  }

  /** Puts the long payloads of jobs that would be taken now, and tells the jobs so. @returns every key it used */
  async #putPayloads(
    jobs: readonly NewJob[],
    sent: readonly Sent<SubmitJob>[],
    ids: readonly string[],
  ): Promise<BucketFile[]> {
    const { queue, bucket, commit } = this.#ports;
    if (bucket === null) return [];
    const files: (BucketFile & { job: NewJob; bytes: Bytes })[] = [];
    for (const [index, job] of jobs.entries()) {
      if (job.payload.length <= limits.ROW_TEXT_CHARACTERS) continue;
      const { payload } = sent[index]!;
      const bytes = typeof payload === 'string' ? encode(payload) : payload;
      job.long_payload = { sha256: await sha256(bytes), key: null };
      const owner = { kind: 'job', id: job.id ?? ids[index]! } as const;
      files.push({ job, owner, key: this.#newKey(), bytes });
    }
    if (files.length === 0) return [];
    const begun = await commit(() => files.filter((file) => queue.do('beginPayload', file.job, file)));
    await Promise.all(
      begun.map(async ({ job, key, bytes }) => {
        if (await this.#put(bucket, key, bytes)) job.long_payload!.key = key;
      }),
    );
    return begun;
  }

  async #put(bucket: Bucket, key: string, bytes: Uint8Array): Promise<boolean> {
    try {
      await bucket.put(key, bytes);
      return true;
    } catch (error) {
      this.#ports.log('warn', 'the bucket did not take a text; it is stored in rows', {
        bytes: bytes.byteLength,
        error: String(error),
      });
      return false;
    }
  }

  /** @throws Error BUCKET_UNREADABLE */
  async #get(key: string): Promise<Bytes | null> {
    const { bucket, log } = this.#ports;
    try {
      if (bucket === null) throw new Error(UNBOUND);
      const object = await bucket.get(key);
      return object && new Uint8Array(await object.arrayBuffer());
    } catch (error) {
      log('warn', 'the bucket cannot be read', { key, error: String(error) });
      throw new Error(BUCKET_UNREADABLE);
    }
  }

  #newKey(): string {
    return `${this.#ports.prefix}/${crypto.randomUUID()}`;
  }
}

function encode(text: string): Bytes {
  return new TextEncoder().encode(text) as Bytes;
}

async function sha256(bytes: Bytes): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** For those that bring none. */
function newIds(jobs: readonly unknown[]): string[] {
  return jobs.map(() => crypto.randomUUID());
}
