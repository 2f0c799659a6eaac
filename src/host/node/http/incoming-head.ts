import type { IncomingMessage } from 'node:http';
import type { RequestHead } from '../../../gateway/request-head.ts';

/** The head of a request as Node has parsed it. */
export class IncomingHead implements RequestHead {
  readonly #incoming: IncomingMessage;
  readonly headers: RequestHead['headers'];

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming;
    this.headers = new ParsedHeaders(incoming.headers);
  }

  get method(): string {
    return this.#incoming.method!;
  }

  get url(): string {
    return `http://${this.#incoming.headers.host}${this.#incoming.url}`;
  }
}

class ParsedHeaders {
  readonly #headers: IncomingMessage['headers'];

  constructor(headers: IncomingMessage['headers']) {
    this.#headers = headers;
  }

  get(name: string): string | null {
    const value = this.#headers[name.toLowerCase()];
    return (Array.isArray(value) ? value.join(', ') : value) ?? null;
  }

  has(name: string): boolean {
    return this.#headers[name.toLowerCase()] !== undefined;
  }

  *[Symbol.iterator](): Iterator<[string, string]> {
    for (const name of Object.keys(this.#headers)) yield [name, this.get(name)!];
  }
}
