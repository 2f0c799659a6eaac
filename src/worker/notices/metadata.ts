import { request } from 'node:http';

/** A request to the metadata service of a cloud. */
export interface Question {
  path: string;
  method?: 'GET' | 'PUT' | 'POST';
  headers?: Record<string, string>;
  body?: string;
  /** The longest time until the answer, ms. */
  withinMs: number;
}

export interface MetadataAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

/** Asks the metadata service. @throws Error if it does not answer in time */
export type AskMetadata = (question: Question, signal?: AbortSignal) => Promise<MetadataAnswer>;

/** Returns how to ask the service at an address. It belongs to this machine, so no proxy is on the way. */
export function metadataAt(base: string): AskMetadata {
  return ({ path, method = 'GET', headers, body, withinMs }, signal) =>
    new Promise((resolve, reject) => {
      const limit = AbortSignal.timeout(withinMs);
      const ended = signal ? AbortSignal.any([signal, limit]) : limit;
      const asked = request(`${base}${path}`, { method, headers, signal: ended, agent: false });
      asked.on('error', reject);
      asked.on('response', (response) => {
        const parts: Buffer[] = [];
        response.on('error', reject);
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(parts).toString(),
          }),
        );
      });
      asked.end(body);
    });
}
