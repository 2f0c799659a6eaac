import { createReadStream, createWriteStream } from 'node:fs';
import { rename, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { EXIT, UserError } from '../process/index.ts';

/** Where batches are run, and who asks. */
export interface BatchTarget {
  url: string;
  token?: string;
}

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
  readonly #target: BatchTarget;

  constructor(target: BatchTarget) {
    this.#target = target;
  }

  /** @returns the id of the file */
  async upload(path: string): Promise<string> {
    const name = encodeURIComponent(basename(path));
    const { size } = await stat(path);
    const body = Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array>;
    const { id } = await this.#json<{ id: string }>(`/v1/files?purpose=batch&filename=${name}`, {
      method: 'POST',
      body,
      duplex: 'half',
      headers: { 'content-type': 'application/jsonl', 'content-length': String(size) },
    });
    return id;
  }

  create(input_file_id: string, endpoint: string, completion_window: string): Promise<BatchView> {
    return this.#json('/v1/batches', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input_file_id, endpoint, completion_window }),
    });
  }

  get(id: string): Promise<BatchView> {
    return this.#json(`/v1/batches/${encodeURIComponent(id)}`);
  }

  cancel(id: string): Promise<BatchView> {
    return this.#json(`/v1/batches/${encodeURIComponent(id)}/cancel`, { method: 'POST' });
  }

  async list(limit: number): Promise<BatchView[]> {
    return (await this.#json<{ data: BatchView[] }>(`/v1/batches?limit=${limit}`)).data;
  }

  /** Writes a file's content beside `path` first, so that `path` is whole whenever it is there. */
  async download(fileId: string, path: string): Promise<void> {
    const { body } = await this.#ask(`/v1/files/${encodeURIComponent(fileId)}/content`);
    const partial = `${path}.part`;
    await pipeline(Readable.fromWeb(body as never), createWriteStream(partial)).catch((error: Error) => {
      throw new UserError(`${path} cannot be written: ${error.message}`, EXIT.unexpected);
    });
    await rename(partial, path);
  }

  async #json<T>(path: string, init?: RequestInit): Promise<T> {
    return (await (await this.#ask(path, init)).json()) as T;
  }

  async #ask(path: string, init: RequestInit = {}): Promise<Response> {
    const { url, token } = this.#target;
    const headers = { ...init.headers, ...(token && { authorization: `Bearer ${token}` }) };
    let response: Response;
    try {
      response = await fetch(`${url.replace(/\/$/, '')}${path}`, { ...init, headers });
    } catch (error) {
      const { message, cause } = error as Error;
      const why = cause instanceof Error && cause.message ? cause.message : message;
      throw new UnreachableQueue(
        `The queue at ${url} cannot be reached: ${why}. Start one with "npm start", or give its --url.`,
      );
    }
    if (response.ok) return response;
    const text = await response.text();
    const message = messageIn(text) ?? `HTTP ${response.status}`;
    if (response.status >= 500)
      throw new UnreachableQueue(`The queue refused (${response.status}): ${message}`);
    throw new UserError(`The queue refused (${response.status}): ${message}`, EXIT.unexpected);
  }
}

/** It may be there again in a moment. */
export class UnreachableQueue extends UserError {}

function messageIn(text: string): string | null {
  try {
    const message = (JSON.parse(text) as { error?: { message?: unknown } }).error?.message;
    return typeof message === 'string' ? message : null;
  } catch {
    return null;
  }
}
