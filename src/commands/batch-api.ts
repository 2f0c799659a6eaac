import { createReadStream, createWriteStream } from 'node:fs';
import { rename, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { EXIT, UserError } from '../process/index.ts';
import { askQueue, askQueueJson, type QueueTarget } from './ask-queue.ts';

/** What the commands show of a batch, as `/v1/batches` answers it. */
export interface BatchView {
  id: string;
  status: string;
  endpoint: string;
  created_at: number;
  expires_at: number;
  output_file_id: string | null;
  error_file_id: string | null;
  request_counts: { total: number; completed: number; failed: number };
  usage: { input_tokens: number; output_tokens: number };
  errors: { data: { code: string; message: string; line: number | null }[] } | null;
}

/** OpenAI's Files and Batch API, as far as the commands use it. Each method throws UserError. */
export class BatchApi {
  readonly #target: QueueTarget;

  constructor(target: QueueTarget) {
    this.#target = target;
  }

  /** @param signal breaks it off @returns the id of the file */
  async upload(path: string, signal: AbortSignal): Promise<string> {
    const name = encodeURIComponent(basename(path));
    const { size } = await stat(path);
    const body = Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array>;
    const response = await askQueue(this.#target, `/v1/files?purpose=batch&filename=${name}`, {
      method: 'POST',
      body,
      duplex: 'half',
      signal,
      headers: { 'content-type': 'application/jsonl', 'content-length': String(size) },
    });
    return ((await response.json()) as { id: string }).id;
  }

  create(input_file_id: string, endpoint: string, completion_window: string): Promise<BatchView> {
    const body = { input_file_id, endpoint, completion_window };
    return askQueueJson(this.#target, '/v1/batches', { method: 'POST', body });
  }

  get(id: string): Promise<BatchView> {
    return askQueueJson(this.#target, `/v1/batches/${encodeURIComponent(id)}`);
  }

  cancel(id: string): Promise<BatchView> {
    return askQueueJson(this.#target, `/v1/batches/${encodeURIComponent(id)}/cancel`, { method: 'POST' });
  }

  async list(limit: number): Promise<BatchView[]> {
    return (await askQueueJson<{ data: BatchView[] }>(this.#target, `/v1/batches?limit=${limit}`)).data;
  }

  /** Writes a file's content beside `path` first, so that `path` is whole whenever it is there. */
  async download(fileId: string, path: string): Promise<void> {
    const { body } = await askQueue(this.#target, `/v1/files/${encodeURIComponent(fileId)}/content`);
    const partial = `${path}.part`;
    await pipeline(Readable.fromWeb(body as never), createWriteStream(partial)).catch((error: Error) => {
      throw new UserError(`${path} cannot be written: ${error.message}`, EXIT.unexpected);
    });
    await rename(partial, path);
  }
}
