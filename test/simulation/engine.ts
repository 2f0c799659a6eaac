import { FIRST_REQUEST } from '../../src/engine/client/first-answer.ts';
import {
  type EngineAnswer,
  type EngineCall,
  type EngineClient,
  type EngineGauges,
  EngineGone,
  EngineUnreachable,
} from '../../src/engine/client/types.ts';
import type { Clock } from '../../src/worker/clock.ts';
import { readBody } from '../support/engine-call.ts';
import { answered } from '../support/fake-engine.ts';
import type { Random } from '../support/random.ts';
import { continuableAnswer, type GenerationBody, isOfAnotherModel } from './continuable-answer.ts';
import type { EngineAdapters } from './engine-adapters.ts';
import type { PrefillEngine } from './prefill-engine.ts';
import type { SleepMode } from './sleeping-engine.ts';

/** How one request at the engine goes. */
type Ending =
  | 'whole'
  | 'cut'
  | 'gone_before_head'
  | 'unreachable'
  | 'aborted_by_engine'
  | 'no_finish'
  | 'hang';

/** What an engine says to one request. */
export interface Saying {
  promptTokens: number;
  /** Tokens that this part of an answer takes, those of a prompt that its caller wrote included. */
  spends: number;
  /** Tokens of its answer if nothing cuts it short; of one that is continued, with those before. */
  tokens: number;
  /** All that whoever asked gets of it if nothing cuts it short. */
  bytes: Buffer;
  /** The same with the usage, of an answer that another engine can go on with; null: none can. */
  counted: Buffer | null;
  /** What leaves the engine, with what only the worker asked for. */
  said: Buffer;
}

/** One request that reached an engine: what it said, so that it can be told from every other. */
export interface Exchange extends Saying {
  readonly id: number;
  readonly jobId: string;
  readonly fence: number;
  readonly worker: string;
  readonly status: number;
  readonly ending: Ending;
  /** How much of it has left the engine. */
  emitted: number;
  state: 'running' | 'whole' | 'failed' | 'aborted';
}

/** Every answer of an engine names its exchange in this form. */
export const EXCHANGE_MARK = /x-(\d+)-x/;

/** About the most pieces one answer comes in. */
const MOST_PIECES = 30;

export interface EnginePorts {
  clock: Clock;
  random: Random;
  worker: string;
  /** As of its plan. */
  tellsIds: boolean;
  model: number;
  /** The name of its model. */
  serves: 'tiny' | 'small';
  adapters: EngineAdapters;
  /** Null: it has its GPU for itself. */
  sleep: SleepMode | null;
  /** Whose blocks it reads; null: it has none to read from. */
  prefiller: PrefillEngine | null;
  /** Share of requests that go wrong, now. */
  trouble(): number;
  /** How much longer than others this request takes before it is answered. */
  holdMs(jobId: string): number;
  /** The fence token under which the worker runs this job. */
  fenceOf(jobId: string): number;
  violated(promise: string, message: string): void;
  begun(exchange: Omit<Exchange, 'id' | keyof Saying>, say: (id: number) => Saying): Exchange;
  ended(exchange: Exchange): void;
}

/** An engine that follows a script drawn from the seed. */
export class SimulatedEngine implements EngineClient {
  readonly #ports: EnginePorts;
  readonly #open = new Set<{ exchange: Exchange; die: () => void }>();
  isHealthyNow = true;
  /** Requests from elsewhere that wait in it. */
  waiting = 0;

  constructor(ports: EnginePorts) {
    this.#ports = ports;
  }

  /** Requests that nobody aborted and that have not ended. */
  get open(): number {
    return this.#open.size;
  }

  /** The process is gone: whatever it was saying breaks off. */
  die(): void {
    this.isHealthyNow = false;
    this.#ports.sleep?.die();
    for (const { die } of [...this.#open]) die();
  }

  async request(call: EngineCall): Promise<EngineAnswer> {
    const { random } = this.#ports;
    if (!this.isHealthyNow) throw new EngineUnreachable('nothing listens');
    if (call.requestId === FIRST_REQUEST) return await answered('{"choices":[{"text":"Hi"}]}');
    const { sleep, adapters } = this.#ports;
    const turning = sleep?.route(call);
    if (turning) return await turning;
    sleep?.used(call.requestId ?? call.path);
    const loading = adapters.route(call);
    if (loading) return await loading;
    const jobId = call.requestId ?? '';
    const body = (readBody(call) ?? {}) as Body;
    if (!this.#ports.tellsIds) {
      delete body.return_token_ids;
      delete body.include_stop_str_in_output;
      delete body.kv_transfer_params;
    }
    if (call.path === '/detokenize') return detokenized();
    const lost = this.#ports.prefiller?.read(call, body);
    if (lost) return lost;
    this.#checkModel(jobId, body);
    const streams = body.stream === true;
    const goesWrong = random.chance(this.#ports.trouble());
    const { status, ending } = goesWrong
      ? drawTrouble(random, streams)
      : { status: 200, ending: 'whole' as const };
    const tokens = random.int(1, 12);
    const exchange = this.#ports.begun(
      {
        jobId,
        fence: this.#ports.fenceOf(jobId),
        worker: this.#ports.worker,
        status,
        ending,
        emitted: 0,
        state: 'running',
      },
      (id) => {
        const prompt = body.token_ids ?? body.messages;
        if (status !== 200 || !prompt?.length) return plain(id, status, body, ending, tokens, random);
        const { model } = this.#ports;
        return streams
          ? continuing(id, body, ending, random.next(), model)
          : inOnePiece(id, body, ending, model);
      },
    );
    this.#ports.adapters.begun(exchange, body.model);
    if (ending === 'unreachable' || ending === 'gone_before_head') {
      await this.#sleep(random.wait(200), call.signal, exchange);
      this.#end(exchange, 'failed');
      if (ending === 'unreachable') throw new EngineUnreachable('nothing listens');
      throw new EngineGone('broke before it answered');
    }
    const thinksMs = random.wait(random.chance(0.1) ? 5000 : 300);
    await this.#sleep(thinksMs + this.#ports.holdMs(jobId), call.signal, exchange);
    const type = streams && status === 200 ? 'text/event-stream; charset=utf-8' : 'application/json';
    return { status, headers: { 'content-type': type }, body: this.#body(exchange, call.signal) };
  }

  /** Ids mean something else to another model. */
  #checkModel(jobId: string, { kv_transfer_params, token_ids, model: asked }: Body): void {
    const { model, serves, violated, worker } = this.#ports;
    if (asked === 'name' || (asked === 'small' && serves !== asked))
      violated('an engine is asked for its own model', `${jobId} at ${worker}: "${asked}", not "${serves}"`);
    const ids = kv_transfer_params?.prompt_token_ids ?? token_ids ?? [];
    if (isOfAnotherModel(ids, model))
      violated('answers go on between equals alone', `${jobId} at ${worker}, whose model is ${model}`);
  }

  /** Pieces of any size, as a network cuts them. */
  async *#body(exchange: Exchange, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const { random } = this.#ports;
    const { ending, said: bytes } = exchange;
    // What may be moved takes as long as machines go away; what was held has taken long enough.
    const drawn = random.pick(exchange.counted === null ? [10, 100, 1000] : [100, 1000, 2000]);
    const gapMs = this.#ports.holdMs(exchange.jobId) > 0 ? 10 : drawn;
    const size = Math.max(random.pick([40, 150, 5000]), bytes.byteLength / MOST_PIECES);
    const breaksAt =
      ending === 'cut' || ending === 'hang' ? random.int(0, bytes.byteLength - 1) : bytes.byteLength;
    try {
      while (exchange.emitted < breaksAt) {
        await this.#sleep(random.wait(gapMs), signal, exchange);
        const to = Math.min(breaksAt, exchange.emitted + random.int(1, Math.ceil(size)));
        const piece = bytes.subarray(exchange.emitted, to);
        exchange.emitted = to;
        yield piece;
      }
      if (ending === 'hang') await this.#sleep(random.int(5000, 60_000), signal, exchange);
      if (breaksAt < bytes.byteLength) {
        this.#end(exchange, 'failed');
        throw new EngineGone('broke off in the middle');
      }
      this.#end(exchange, ending === 'whole' ? 'whole' : 'failed');
    } finally {
      // Whoever read it went away before the end: the socket is closed, and the engine stops.
      this.#end(exchange, 'aborted');
    }
  }

  /** Time passes, unless the request is aborted or the engine dies. */
  #sleep(ms: number, signal: AbortSignal, exchange: Exchange): Promise<void> {
    const { clock } = this.#ports;
    return new Promise((resolve, reject) => {
      const entry = {
        exchange,
        die: () => {
          this.#end(exchange, 'failed');
          finish(() => reject(new EngineGone('the engine died')));
        },
      };
      const onAbort = () => {
        this.#end(exchange, 'aborted');
        finish(() => reject(signal.reason));
      };
      const timer = clock.setTimeout(() => finish(resolve), ms);
      const finish = (how: () => void) => {
        clock.clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        this.#open.delete(entry);
        how();
      };
      this.#open.add(entry);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort);
    });
  }

  #end(exchange: Exchange, state: Exchange['state']): void {
    if (exchange.state !== 'running') return;
    exchange.state = state;
    this.#ports.adapters.ended(exchange);
    this.#ports.ended(exchange);
  }

  async probe(): Promise<'healthy' | 'unhealthy'> {
    return this.isHealthyNow ? 'healthy' : 'unhealthy';
  }

  async isHealthy(): Promise<boolean> {
    return this.isHealthyNow;
  }

  async modelCards(): Promise<never[]> {
    return [];
  }

  async models(): Promise<string[]> {
    return [this.#ports.serves, ...this.#ports.adapters.loaded];
  }

  async gauges(): Promise<EngineGauges | null> {
    return { running: this.#open.size, waiting: this.waiting, kvCacheUsage: 0.1 };
  }

  async metricsPage(): Promise<null> {
    return null;
  }

  async version(): Promise<null> {
    return null;
  }

  async close(): Promise<void> {}
}

interface Body extends GenerationBody {
  model?: string;
}

/** Each token is a whole character. */
function detokenized(): EngineAnswer {
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('{"prompt":"word"}');
  }
  return { status: 200, headers: { 'content-type': 'application/json' }, body: body() };
}

function continuing(id: number, body: Body, ending: Ending, share: number, model: number): Saying {
  const how = {
    isFinished: ending !== 'no_finish',
    gaveUpAt: ending === 'aborted_by_engine' ? share : null,
  };
  const { wanted, ...saying } = continuableAnswer(`x-${id}-x`, id, body, how, model);
  return { ...saying, bytes: wanted.plain, counted: wanted.counted };
}

/** The same answer, not streamed. */
function inOnePiece(id: number, body: Body, ending: Ending, model: number): Saying {
  const whole = continuableAnswer(`x-${id}-x`, id, body, { isFinished: true, gaveUpAt: null }, model);
  const { text, reasoning, finishReason, promptTokens, tokens } = whole;
  const reason = ending === 'aborted_by_engine' ? 'abort' : finishReason;
  const message = { role: 'assistant', content: text, ...(reasoning !== '' && { reasoning }) };
  const bytes = completion(id, message, reason, promptTokens, tokens);
  return { ...whole, bytes, counted: null, said: bytes };
}

function completion(id: number, message: object, reason: string, prompt: number, made: number): Buffer {
  const choices = [{ index: 0, message, finish_reason: reason }];
  const usage = { prompt_tokens: prompt, completion_tokens: made, total_tokens: made + prompt };
  const head = { id: `x-${id}-x`, object: 'chat.completion', model: 'tiny' };
  return Buffer.from(JSON.stringify({ ...head, choices, usage }));
}

function plain(
  id: number,
  status: number,
  body: Body,
  ending: Ending,
  tokens: number,
  random: Random,
): Saying {
  const bytes = Buffer.from(answerText(id, status, body.stream === true, ending, tokens, random));
  const isCounted = body.stream === true && body.stream_options?.include_usage === true && status < 400;
  return {
    promptTokens: 1,
    spends: 1 + tokens,
    tokens,
    bytes,
    counted: null,
    said: isCounted ? withUsage(bytes, tokens) : bytes,
  };
}

/** With the event that only the worker asked for: before the end mark, where there is one. */
function withUsage(bytes: Buffer, tokens: number): Buffer {
  const text = bytes.toString();
  const usage = { prompt_tokens: 1, completion_tokens: tokens, total_tokens: tokens + 1 };
  const event = `data: ${JSON.stringify({ model: 'tiny', choices: [], usage })}\n\n`;
  const at = text.indexOf('data: [DONE]');
  return Buffer.from(at < 0 ? text + event : text.slice(0, at) + event + text.slice(at));
}

function drawTrouble(random: Random, streams: boolean): { status: number; ending: Ending } {
  if (random.chance(0.4)) return { status: random.pick([400, 429, 500, 503]), ending: 'whole' };
  const endings: Ending[] = ['cut', 'gone_before_head', 'unreachable', 'aborted_by_engine', 'hang'];
  // An answer in one piece that ends early is cut: its length is known.
  if (streams) endings.push('no_finish');
  return { status: 200, ending: random.pick(endings) };
}

function answerText(
  id: number,
  status: number,
  streams: boolean,
  ending: Ending,
  tokens: number,
  random: Random,
): string {
  const mark = `x-${id}-x`;
  if (status >= 400) return JSON.stringify({ error: { message: `${mark} refused`, code: status } });
  const reason = ending === 'aborted_by_engine' ? 'abort' : 'stop';
  if (!streams)
    return completion(
      id,
      { role: 'assistant', content: 'word '.repeat(tokens) },
      reason,
      1,
      tokens,
    ).toString();
  const padding = '.'.repeat(random.pick([0, 0, 50, 8000]));
  const event = (content: string, finish: string | null) =>
    `data: ${JSON.stringify({ id: mark, choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;
  let text = '';
  for (let token = 0; token < tokens; token++) text += event(`word ${token} ${padding}`, null);
  return ending === 'no_finish' ? text : `${text}${event('', reason)}data: [DONE]\n\n`;
}
