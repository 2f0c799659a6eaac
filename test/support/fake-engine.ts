import { FIRST_REQUEST } from '../../src/engine/client/first-answer.ts';
import type { EngineAnswer, EngineCall, EngineClient, EngineGauges } from '../../src/engine/client/types.ts';
import { EngineGone, EngineUnreachable } from '../../src/engine/client/types.ts';
import { readBody } from './engine-call.ts';

/** One request as the engine sees it; the test plays the engine. */
export class FakeExchange {
  readonly call: EngineCall;
  readonly #answer = Promise.withResolvers<EngineAnswer>();
  readonly #chunks: (Uint8Array | 'end' | Error)[] = [];
  #wake: () => void = () => {};
  /** Chunks the worker has read. */
  read = 0;

  constructor(call: EngineCall) {
    this.call = call;
    call.signal.addEventListener('abort', () => {
      this.#answer.reject(call.signal.reason);
      this.#wake();
    });
  }

  get promise(): Promise<EngineAnswer> {
    return this.#answer.promise;
  }

  get isAborted(): boolean {
    return this.call.signal.aborted;
  }

  get body(): Record<string, unknown> {
    return readBody(this.call) as Record<string, unknown>;
  }

  head(status: number, contentType: string): this {
    const headers = { 'content-type': contentType, 'content-length': '1', 'x-engine': 'fake' };
    this.#answer.resolve({ status, headers, body: this.#body() });
    return this;
  }

  write(text: string): this {
    return this.#put(Buffer.from(text));
  }

  writeBytes(bytes: Uint8Array): this {
    return this.#put(bytes);
  }

  end(): this {
    return this.#put('end');
  }

  /** The connection to the engine breaks. */
  die(): this {
    return this.#put(new EngineGone('the engine broke off'));
  }

  refuse(): this {
    this.#answer.reject(new EngineUnreachable('nothing listens'));
    return this;
  }

  json(status: number, body: unknown): this {
    return this.head(status, 'application/json').write(JSON.stringify(body)).end();
  }

  /** A finished chat completion. */
  complete(content = 'hello', finishReason = 'stop'): this {
    return this.json(200, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model: 'tiny',
      choices: [
        { index: 0, message: { role: 'assistant', content }, logprobs: null, finish_reason: finishReason },
      ],
      usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5, prompt_tokens_details: null },
    });
  }

  #put(chunk: Uint8Array | 'end' | Error): this {
    this.#chunks.push(chunk);
    this.#wake();
    return this;
  }

  async *#body(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.isAborted) throw this.call.signal.reason;
      const chunk = this.#chunks.shift();
      if (chunk === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } else if (chunk === 'end') return;
      else if (chunk instanceof Error) throw chunk;
      else {
        this.read += 1;
        yield chunk;
      }
    }
  }
}

export class FakeEngine implements EngineClient {
  readonly exchanges: FakeExchange[] = [];
  healthy = true;
  load: EngineGauges | null = null;
  awaitsTurn = false;
  page: string | null = null;
  /** Names it answers to. */
  served = ['tiny'];
  /** The ids that its tokenizer makes of any text; null: it has no route for that. */
  tokens: number[] | null = null;
  modelsAsked = 0;

  get last(): FakeExchange {
    return this.exchanges.at(-1)!;
  }

  request(call: EngineCall): Promise<EngineAnswer> {
    if (call.path === '/tokenize' && this.tokens) return answered(JSON.stringify({ tokens: this.tokens }));
    if (call.requestId === FIRST_REQUEST) return answered('{"choices":[{"text":"Hi"}]}');
    const exchange = new FakeExchange(call);
    this.exchanges.push(exchange);
    return exchange.promise;
  }

  readonly probe = async (): Promise<'healthy' | 'refused'> => (this.healthy ? 'healthy' : 'refused');

  async isHealthy(): Promise<boolean> {
    return this.healthy;
  }

  async modelCards(): Promise<never[]> {
    return [];
  }

  async models(): Promise<string[]> {
    this.modelsAsked += 1;
    return this.served;
  }

  async gauges(): Promise<EngineGauges | null> {
    return this.load;
  }

  async metricsPage(): Promise<string | null> {
    return this.page;
  }

  async version(): Promise<string | null> {
    return '0.32.0';
  }

  async close(): Promise<void> {}
}

/** Answers with one text. */
export async function answered(text: string, status = 200): Promise<EngineAnswer> {
  async function* body(): AsyncGenerator<Uint8Array> {
    yield new TextEncoder().encode(text);
  }
  return { status, headers: {}, body: body() };
}
