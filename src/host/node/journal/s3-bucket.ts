import { setTimeout as sleep } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { UserError } from '../../../process/index.ts';

/** The pause before a write that met another one is sent again, ms. */
const CONFLICT_PAUSE_MS = 50;

interface Sent {
  /** Ends the request. */
  limit: AbortSignal;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Uint8Array<ArrayBuffer> | string;
}

/** The answer of an object store, its body read to the end. */
export interface Answer {
  headers: Headers;
  body: Buffer;
  /** The time of the answer by the clock of the store, epoch ms, of whole seconds. */
  at: number;
}

/** Keys that a listing found. */
export interface Listed {
  /** The ends of the keys, after the prefix. */
  names: string[];
  /** Whether there are more. */
  isCut: boolean;
}

/** The error of a request that the store refused. */
export class S3Error extends Error {
  readonly status: number;
  /** @param code the store's name for the error, such as `NoSuchBucket` */
  constructor(status: number, code: string, message: string) {
    super(`${code || `status ${status}`}${message ? `: ${message}` : ''}`);
    this.status = status;
  }
}

/** The objects below a prefix of a bucket, in Amazon S3 or a store with its API. */
export class S3Bucket {
  readonly #env: NodeJS.ProcessEnv;
  /** The address of the bucket, without a slash at its end. */
  readonly #bucket: string;
  /** The prefix, with a slash at its end unless it is empty. */
  readonly #prefix: string;

  /**
   * @param address `s3://BUCKET/PREFIX`
   * @param env the variables that AWS's own programs read
   * @throws UserError if the address has another form, or there are no keys
   */
  constructor(address: string, env: NodeJS.ProcessEnv) {
    const [, bucket, prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9._-]+)(?:\/(.*?))?\/*$/.exec(address) ?? [];
    if (!bucket)
      throw new UserError(
        'The address of the journal (QUEUE_JOURNAL or --journal) cannot be read. Its form is s3://BUCKET/PREFIX.',
      );
    if (!env.AWS_ACCESS_KEY_ID || !env.AWS_SECRET_ACCESS_KEY)
      throw new UserError(
        'The journal is in an object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys for it.',
      );
    this.#env = env;
    this.#bucket = addressOf(bucket, env);
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
  }

  /** Returns an object, or null if there is none with this key. */
  async get(key: string, limit: AbortSignal, method: 'GET' | 'HEAD' = 'GET'): Promise<Answer | null> {
    try {
      return await this.#send(method, this.#prefix + key, { limit });
    } catch (error) {
      // A HEAD has no body that would name the error.
      if (error instanceof S3Error && error.status === 404 && !error.message.startsWith('NoSuchBucket'))
        return null;
      throw error;
    }
  }

  /**
   * Stores an object.
   * @param headers one with a condition among them
   * @returns null if the condition does not hold
   */
  async put(
    key: string,
    body: Uint8Array | string,
    limit: AbortSignal,
    headers: Record<string, string> = {},
  ): Promise<Answer | null> {
    for (;;) {
      try {
        const sent =
          typeof body === 'string'
            ? body
            : new Uint8Array(body.buffer as ArrayBuffer, body.byteOffset, body.length);
        return await this.#send('PUT', this.#prefix + key, { limit, headers, body: sent });
      } catch (error) {
        if (!(error instanceof S3Error)) throw error;
        const isConditional = 'if-match' in headers || 'if-none-match' in headers;
        // A condition on an object that is not there is answered as if the object were asked for, in some stores.
        if (error.status === 412 || (error.status === 404 && 'if-match' in headers)) return null;
        // Another write of this key was under way: nothing was stored, and nothing is known of the condition.
        if (!isConditional || error.status !== 409) throw error;
        await sleep(CONFLICT_PAUSE_MS, null, { signal: limit });
      }
    }
  }

  async remove(key: string, limit: AbortSignal): Promise<void> {
    await this.#send('DELETE', this.#prefix + key, { limit });
  }

  /** Lists keys in order. @param after the first one comes after this one @param most a thousand at most */
  async list(folder: string, after: string, most: number, limit: AbortSignal): Promise<Listed> {
    const prefix = this.#prefix + folder;
    const query = { 'list-type': '2', prefix, 'start-after': prefix + after, 'max-keys': String(most) };
    const text = (await this.#send('GET', '', { limit, query })).body.toString();
    const keys = [...text.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key = '']) => key);
    // Only the prefix, which is cut off, may have characters that XML escapes.
    const depth = folder.split('/').length - 1;
    const names = keys.map((key) =>
      key
        .split('/')
        .slice(prefixDepth(this.#prefix) + depth)
        .join('/'),
    );
    return { names, isCut: /<IsTruncated>true</.test(text) };
  }

  async #send(method: string, key: string, { limit, query = {}, headers = {}, body }: Sent): Promise<Answer> {
    const url = new URL(`${this.#bucket}/${key.split('/').map(encodeURIComponent).join('/')}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const env = this.#env;
    const signed = await new AwsV4Signer({
      method,
      url: url.href,
      headers,
      service: 's3',
      region: regionOf(env),
      accessKeyId: env.AWS_ACCESS_KEY_ID!,
      secretAccessKey: env.AWS_SECRET_ACCESS_KEY!,
      sessionToken: env.AWS_SESSION_TOKEN,
    }).sign();
    const response = await fetch(signed.url, { method, headers: signed.headers, body, signal: limit }).catch(
      (error: Error) => {
        // The cause names what `fetch failed` does not.
        throw error.cause instanceof Error ? error.cause : error;
      },
    );
    const answer = {
      headers: response.headers,
      body: Buffer.from(await response.arrayBuffer()),
      at: Date.parse(response.headers.get('date') ?? ''),
    };
    if (!response.ok) throw errorOf(response.status, answer.body.toString());
    return answer;
  }
}

function addressOf(bucket: string, env: NodeJS.ProcessEnv): string {
  const endpoint = env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL;
  if (!endpoint) return `https://${bucket}.s3.${regionOf(env)}.amazonaws.com`;
  if (!URL.canParse(endpoint))
    throw new UserError(
      `AWS_ENDPOINT_URL is no address: ${JSON.stringify(endpoint)}. Set it to one like https://HOST.`,
    );
  return `${endpoint.replace(/\/+$/, '')}/${bucket}`;
}

function regionOf(env: NodeJS.ProcessEnv): string {
  return env.AWS_REGION || env.AWS_DEFAULT_REGION || 'us-east-1';
}

function prefixDepth(prefix: string): number {
  return prefix.split('/').length - 1;
}

function errorOf(status: number, text: string): S3Error {
  const field = (name: string) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1] ?? '';
  return new S3Error(status, field('Code'), field('Message'));
}
