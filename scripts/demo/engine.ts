import { setTimeout as sleep } from 'node:timers/promises';
import type {
  AnswerBody,
  EngineAnswer,
  EngineCall,
  EngineClient,
  EngineGauges,
} from '../../src/engine/client/types.ts';
import { readBody } from '../../test/support/engine-call.ts';

export interface EnginePace {
  model: string;
  slots: number;
  /** The tokens a second of one request. */
  tokensPerSecond: number;
  firstTokenMs: number;
  /** The tokens of every answer; left out: some, as many as were asked for at most. */
  tokens?: number;
}

/** Between two events of a stream, ms: few and large ones, since nobody reads these words. */
const EVENT_MS = 250;
const FEWEST_TOKENS = 80;
/** Share of requests that the engine refuses. */
const REFUSED = 0.015;
const WORDS =
  'the engine answers with words that nobody has to read while the page shows how many there are of them'.split(
    ' ',
  );

/**
 * An engine in this process that costs next to nothing: it computes nothing and answers at a set pace. Twenty simulators
 * would be twenty processes more, each with an event a token.
 */
export class DemoEngine implements EngineClient {
  readonly #pace: EnginePace;
  /** The times at which the first tokens of requests under way came or will come, epoch ms. */
  readonly #running = new Set<number>();
  #finishedTokens = 0;
  /** Share of the KV cache that is taken whatever runs. */
  kvCacheFloor = 0.04;

  constructor(pace: EnginePace) {
    this.#pace = pace;
  }

  /** Share of the slots in use. */
  get load(): number {
    return Math.min(1, this.#running.size / this.#pace.slots);
  }

  async request(call: EngineCall): Promise<EngineAnswer> {
    const asked = (readBody(call) ?? {}) as {
      stream?: boolean;
      max_tokens?: number;
    };
    if (call.path.startsWith('/v1/embeddings')) return await this.#embed(call);
    if (Math.random() < REFUSED) {
      const message = 'This model supports at most 32768 tokens. You requested 40213: shorten the prompt.';
      return json(400, { error: { message, type: 'BadRequestError', code: 400 } });
    }
    const most = Math.max(FEWEST_TOKENS, asked.max_tokens ?? 512);
    const drawn = Math.round(FEWEST_TOKENS + Math.random() * (most - FEWEST_TOKENS));
    const tokens = this.#pace.tokens ?? drawn;
    const usage = usageOf(100 + Math.round(Math.random() * 1500), tokens);
    if (asked.stream) {
      const body = this.#stream(call, usage);
      return { status: 200, headers: { 'content-type': 'text/event-stream; charset=utf-8' }, body };
    }
    await this.#generate(call.signal, tokens, (ms) => sleep(ms, undefined, { signal: call.signal }));
    const message = { role: 'assistant', content: `${text(0, 12)} (${tokens} tokens, made up)` };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    return json(200, { id: `chatcmpl-${call.requestId}`, model: this.#pace.model, choices, usage });
  }

  async probe(): Promise<'healthy'> {
    return 'healthy';
  }

  async isHealthy(): Promise<boolean> {
    return true;
  }

  async models(): Promise<string[]> {
    return [this.#pace.model];
  }

  async modelCards(): Promise<never[]> {
    return [];
  }

  async metricsPage(): Promise<null> {
    return null;
  }

  async version(): Promise<string> {
    return '0.32.0';
  }

  async gauges(): Promise<EngineGauges> {
    const now = Date.now();
    const { tokensPerSecond } = this.#pace;
    const streams = [...this.#running].map((since) => Math.max(0, now - since) / 1000);
    const generatedTokens = streams.reduce((sum, s) => sum + s * tokensPerSecond, this.#finishedTokens);
    const kvCacheUsage = Math.min(1, this.kvCacheFloor + this.load * 0.7);
    return {
      running: this.#running.size,
      waiting: 0,
      kvCacheUsage,
      progress: generatedTokens,
      generatedTokens,
    };
  }

  async close(): Promise<void> {}

  async #embed({ signal }: EngineCall): Promise<EngineAnswer> {
    await this.#generate(signal, 0, (ms) => sleep(ms, undefined, { signal }));
    const data = [
      { object: 'embedding', index: 0, embedding: Array.from({ length: 8 }, () => Math.random()) },
    ];
    const usage = { prompt_tokens: 40 + Math.round(Math.random() * 400), total_tokens: 440 };
    return json(200, { object: 'list', model: this.#pace.model, data, usage });
  }

  async *#stream(call: EngineCall, usage: Usage): AnswerBody {
    const { model, tokensPerSecond } = this.#pace;
    const id = `chatcmpl-${call.requestId}`;
    const event = (fields: object) =>
      Buffer.from(`data: ${JSON.stringify({ id, object: 'chat.completion.chunk', model, ...fields })}\n\n`);
    const started = this.#begin();
    try {
      await sleep(this.#firstTokenMs(), undefined, { signal: call.signal });
      const step = (tokensPerSecond * EVENT_MS) / 1000;
      for (let at = 0; at < usage.completion_tokens; at += step) {
        yield event({
          choices: [{ index: 0, delta: { content: `${text(at, step)} ` }, finish_reason: null }],
        });
        await sleep(EVENT_MS, undefined, { signal: call.signal });
      }
      yield event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
      yield event({ choices: [], usage });
      yield Buffer.from('data: [DONE]\n\n');
      this.#finishedTokens += usage.completion_tokens;
    } finally {
      this.#running.delete(started);
    }
  }

  async #generate(
    signal: AbortSignal,
    tokens: number,
    pause: (ms: number) => Promise<unknown>,
  ): Promise<void> {
    signal.throwIfAborted();
    const started = this.#begin();
    try {
      await pause(this.#firstTokenMs() + (tokens === 0 ? 0 : (tokens * 1000) / this.#pace.tokensPerSecond));
      this.#finishedTokens += tokens;
    } finally {
      this.#running.delete(started);
    }
  }

  #begin(): number {
    // Told apart by a fraction of a millisecond.
    const started = Date.now() + this.#pace.firstTokenMs + Math.random();
    this.#running.add(started);
    return started;
  }

  #firstTokenMs(): number {
    return this.#pace.firstTokenMs * (0.7 + Math.random() * 1.3) * (1 + this.load);
  }
}

type Usage = ReturnType<typeof usageOf>;

function usageOf(prompt_tokens: number, completion_tokens: number) {
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function text(from: number, words: number): string {
  return Array.from({ length: Math.ceil(words) }, (_, n) => WORDS[Math.floor(from + n) % WORDS.length]).join(
    ' ',
  );
}

function json(status: number, body: unknown): EngineAnswer {
  const bytes = Buffer.from(JSON.stringify(body));
  async function* whole() {
    yield bytes;
  }
  return { status, headers: { 'content-type': 'application/json' }, body: whole() };
}
