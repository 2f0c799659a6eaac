import { FIRST_REQUEST } from '../../src/engine/client/first-answer.ts';
import {
  type EngineAnswer,
  type EngineCall,
  type EngineClient,
  EngineGone,
  EngineUnreachable,
} from '../../src/engine/client/types.ts';
import { promptIds } from '../../src/simulator/text.ts';
import type { Clock } from '../../src/worker/clock.ts';
import { Prefills } from '../../src/worker/prefill/prefills.ts';
import { readBody } from '../support/engine-call.ts';
import type { Random } from '../support/random.ts';
import { type GenerationBody, PROMPT_TOKENS } from './continuable-answer.ts';

interface PrefillPorts {
  clock: Clock;
  random: Random;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
  /** Share of prefills that go wrong, now. */
  trouble(): number;
  violated(promise: string, message: string): void;
}

const FAULTS = ['unreachable', 'gone', 'fails', 'refuses', 'no_blocks', 'shorter', 'lost', 'hangs'] as const;

/** Longer than any prompt of a run may take, ms. */
const HANGS_MS = 60_000;

/** A second engine of a worker, which prefills long prompts and keeps their blocks for the one that decodes. */
export class PrefillEngine {
  readonly #ports: PrefillPorts;
  readonly #kept = new Map<string, { jobId: string; ids: readonly number[]; isRead: boolean }>();
  #requests = 0;

  constructor(ports: PrefillPorts) {
    this.#ports = ports;
  }

  /** The engine that decodes, as its worker asks it: by the real rules. Whatever this one does costs no answer. */
  before(engine: EngineClient): EngineClient {
    const whole = new WeakSet<EngineCall>();
    const direct = {
      ...methodsOf(engine),
      request: (call: EngineCall) => {
        whole.add(call);
        return engine.request(call);
      },
    };
    const prefiller = { ...direct, request: (call: EngineCall) => this.#prefill(call) };
    const both = new Prefills(prefiller, this.#ports).before(direct);
    const failed = (call: EngineCall, why: string) => {
      if (!call.signal.aborted && !whole.has(call))
        this.#ports.violated('a prefill that fails costs no answer', `${call.requestId}: ${why}`);
    };
    return {
      ...both,
      request: async (call) => {
        try {
          const answer = await both.request(call);
          if (answer.status >= 400) failed(call, `status ${answer.status}`);
          return answer;
        } catch (error) {
          failed(call, (error as Error).message);
          throw error;
        }
      },
    };
  }

  /** The engine that decodes reads the blocks that a request names. @returns the error that it answers without them */
  read(
    { requestId }: EngineCall,
    { kv_transfer_params: params, stream }: GenerationBody,
  ): EngineAnswer | null {
    if (params?.do_remote_prefill !== true) return null;
    const kept = this.#kept.get(String(params.remote_request_id));
    if (kept === undefined) return stream ? failedStream() : answer(500, { error: { message: 'no blocks' } });
    const wrong = (why: string) =>
      this.#ports.violated('blocks are read once, by the request that they are of', `${requestId} ${why}`);
    if (kept.jobId !== requestId) wrong(`reads blocks of ${kept.jobId}`);
    if (kept.isRead) wrong('reads blocks again');
    if (String(kept.ids) !== String(params.prompt_token_ids)) wrong('has another prompt than its blocks');
    kept.isRead = true;
    return null;
  }

  async #prefill(call: EngineCall): Promise<EngineAnswer> {
    const { signal, requestId } = call;
    if (requestId === FIRST_REQUEST) return answer(404, {});
    const { random, trouble } = this.#ports;
    const fault = random.chance(trouble()) ? random.pick(FAULTS) : null;
    if (fault === 'unreachable') throw new EngineUnreachable('nothing listens');
    await this.#sleep(fault === 'hangs' ? HANGS_MS : random.wait(500, 4000), signal);
    if (fault === 'gone') throw new EngineGone('broke before it answered');
    if (fault === 'fails') return answer(500, {});
    if (fault === 'refuses') return answer(404, {});
    const { messages } = readBody(call) as GenerationBody;
    const ids = promptIds(JSON.stringify(messages), PROMPT_TOKENS);
    const id = `prefill-${++this.#requests}`;
    const held = fault === 'shorter' ? ids.slice(1) : ids;
    if (fault !== 'lost') this.#kept.set(id, { jobId: requestId ?? '', ids: held, isRead: false });
    const params = { do_remote_prefill: true, remote_request_id: id, remote_num_tokens: held.length };
    return answer(200, {
      prompt_token_ids: ids,
      kv_transfer_params: fault === 'no_blocks' ? null : params,
    });
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#ports;
    return new Promise((resolve, reject) => {
      const gone = () => {
        clock.clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = clock.setTimeout(() => {
        signal.removeEventListener('abort', gone);
        resolve();
      }, ms);
      if (signal.aborted) gone();
      else signal.addEventListener('abort', gone, { once: true });
    });
  }
}

function methodsOf(engine: EngineClient): EngineClient {
  return {
    request: (call) => engine.request(call),
    probe: (timeoutMs) => engine.probe(timeoutMs),
    isHealthy: (timeoutMs) => engine.isHealthy(timeoutMs),
    models: () => engine.models(),
    modelCards: () => engine.modelCards(),
    gauges: () => engine.gauges(),
    metricsPage: () => engine.metricsPage(),
    version: () => engine.version(),
    close: () => engine.close(),
  };
}

function answer(status: number, json: object): EngineAnswer {
  return bodied(status, 'application/json', JSON.stringify(json));
}

/** As vLLM tells of blocks that it could not read. */
function failedStream(): EngineAnswer {
  const role = { choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] };
  const events = [role, { error: { message: 'Internal server error', code: 500 } }];
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
  return bodied(200, 'text/event-stream; charset=utf-8', `${text}data: [DONE]\n\n`);
}

function bodied(status: number, type: string, text: string): EngineAnswer {
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  }
  return { status, headers: { 'content-type': type }, body: body() };
}
