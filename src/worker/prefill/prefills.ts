import {
  type EngineAnswer,
  type EngineCall,
  type EngineClient,
  EngineGone,
  EngineUnreachable,
  readPieces,
  readText,
  resumed,
} from '../../engine/client/types.ts';
import { withTimeout } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { Outage } from '../../process/outage.ts';
import {
  EventTexts,
  eventData,
  fieldsOf,
  isEventStream,
  isFinish,
  jsonOrText,
  readEvent,
} from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import { mayBeEqual, modelIdentity } from '../model-identity.ts';
import {
  decodeCall,
  type Prefill,
  type Prefillable,
  prefillable,
  prefillCall,
  readPrefill,
} from './request.ts';

/**
 * The result of a long prompt's request: `done`, or the reason why it ran whole on the decoding engine.
 *
 * - `unreachable`: nothing listens at the prefill engine, its connection broke, or it answered 5xx
 * - `slow`: the prefill took longer than a prompt of that length may
 * - `other_model`: the prefill engine serves another model, or has another tokenizer, so that its blocks mean nothing
 * - `refused`: the prefill engine did not take the request, which may be the request's own fault
 * - `unusable`: the prefill engine's answer names no blocks that another engine could read
 * - `not_decoded`: the decoding engine failed with the blocks, or was late, before its first token
 * - `resting`: a failure of these kinds, except `refused`, happened less than 10 s ago
 */
const PREFILL_RESULTS = [
  'done',
  'unreachable',
  'slow',
  'other_model',
  'refused',
  'unusable',
  'not_decoded',
  'resting',
] as const;
type PrefillResult = (typeof PREFILL_RESULTS)[number];

/**
 * A prefill may take this long, and MS_A_TOKEN more for each token of its prompt, ms. A prefill engine that does less
 * than a thousand tokens a second, queueing included, is not worth waiting for.
 */
const PREFILL_WITHIN_MS = 5000;
const MS_A_TOKEN = 1;
/**
 * The first token must come within this time, ms: vLLM keeps the blocks for 30 s, and longer while the decoding engine
 * reports that it lives.
 */
const DECODE_WITHIN_MS = 20_000;
/** The prefill engine is not used for this long after a failure, ms, so that not every caller pays for it. */
const REST_MS = 10_000;

/** Sends long prompts to an engine that only prefills; the decoding engine reads its cache. */
export class Prefills {
  readonly #prefiller: EngineClient;
  readonly #clock: Clock;
  readonly #outage: Outage;
  #restsUntil = 0;
  /** Whether both engines serve the same; null: not asked since the last failure. */
  #areEqual: Promise<boolean> | null = null;
  #tokens = 0;
  readonly #results = Object.fromEntries(PREFILL_RESULTS.map((result) => [result, 0])) as Record<
    PrefillResult,
    number
  >;

  /** @param prefiller the engine at ENGINE_PREFILL_URL */
  constructor(prefiller: EngineClient, { clock, log }: { clock: Clock; log: Pick<Log, 'info' | 'warn'> }) {
    this.#prefiller = prefiller;
    this.#clock = clock;
    this.#outage = new Outage(log, {
      begins: 'the prefill engine cannot be used; long prompts run whole',
      ends: 'the prefill engine is used again',
    });
  }

  /**
   * Returns the counts since the worker's start.
   * @returns the number of requests by result, and the tokens of the prompts that were handed over
   */
  get counts(): { results: Readonly<Record<PrefillResult, number>>; tokens: number } {
    return { results: this.#results, tokens: this.#tokens };
  }

  /** Returns the decoding engine, with prefills in front of its requests. */
  before(engine: EngineClient): EngineClient {
    return {
      ...engine,
      request: (call) => this.#request(engine, call),
      close: async () => {
        await Promise.all([engine.close(), this.#prefiller.close()]);
      },
    };
  }

  async #request(engine: EngineClient, call: EngineCall): Promise<EngineAnswer> {
    const asked = prefillable(call);
    if (asked === null) return await engine.request(call);
    const prefill = await this.#prefill(engine, asked);
    const answer = typeof prefill === 'string' ? prefill : await this.#decode(engine, asked, prefill);
    if (typeof answer !== 'string') return answer;
    this.#results[answer] += 1;
    return await engine.request(call);
  }

  /** Prefills a prompt. @throws DOMException `AbortError` when the request's signal fired */
  async #prefill(engine: EngineClient, asked: Prefillable): Promise<Prefill | PrefillResult> {
    if (this.#clock.now() < this.#restsUntil) return 'resting';
    const { signal } = asked.call;
    const ask = async (until: AbortSignal) => {
      this.#areEqual ??= this.#compare(engine);
      if (!(await this.#areEqual)) return null;
      const { status, body } = await this.#prefiller.request(prefillCall(asked, until));
      return { status, text: await readText(body) };
    };
    try {
      const limitMs = PREFILL_WITHIN_MS + asked.tokens * MS_A_TOKEN;
      const answer = await withTimeout(this.#clock, limitMs, ask, { signal });
      if (answer === null)
        return this.#rest('other_model', 'it serves another model than the engine that decodes');
      const { status, text } = answer;
      if (status >= 500) return this.#rest('unreachable', `it answered ${status}`);
      if (status >= 300) return 'refused';
      return readPrefill(text) ?? this.#rest('unusable', 'its answer names no blocks of its cache');
    } catch (error) {
      signal.throwIfAborted();
      const isGone = error instanceof EngineUnreachable || error instanceof EngineGone;
      return this.#rest(isGone ? 'unreachable' : 'slow', (error as Error).message);
    }
  }

  /**
   * Sends one request with one prefill, since blocks that were read once are given to other prompts. @throws as
   * `#prefill`
   */
  async #decode(
    engine: EngineClient,
    asked: Prefillable,
    prefill: Prefill,
  ): Promise<EngineAnswer | PrefillResult> {
    const { signal } = asked.call;
    const decode = async (until: AbortSignal) =>
      await withFirstToken(await engine.request(decodeCall(asked, prefill, until)));
    try {
      // An answer in one piece has no first token to wait for.
      const answer = asked.isStream
        ? await withTimeout(this.#clock, DECODE_WITHIN_MS, decode, { signal })
        : await decode(signal);
      if (answer === null) return this.#rest('not_decoded', 'the engine failed with its blocks');
      this.#results.done += 1;
      this.#tokens += prefill.promptIds.length;
      this.#outage.report(null);
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      return this.#rest('not_decoded', (error as Error).message);
    }
  }

  /** Compares what the engines serve. One that does not say is taken for equal. Never throws. */
  async #compare(decoder: EngineClient): Promise<boolean> {
    const clock = this.#clock;
    const identities = [decoder, this.#prefiller].map(async (engine) => {
      const [names, cards] = await Promise.all([engine.models(), engine.modelCards()]);
      // Nobody knows which revision the prefill engine was told to load.
      return await modelIdentity({ engine, clock }, { names, cards, revision: null });
    });
    const [own = null, other = null] = await Promise.all(identities);
    return own === null || other === null || mayBeEqual(own, other);
  }

  #rest(result: PrefillResult, problem: string): PrefillResult {
    this.#areEqual = null;
    this.#restsUntil = this.#clock.now() + REST_MS;
    this.#outage.report(problem);
    return result;
  }
}

/**
 * Resolves to the answer; if it is a stream, once its first token has come, with everything that came before. Resolves
 * to null if the answer failed before anything of it was passed on. An engine reports a cache that it could not read by
 * a status, or by an error among the events, after a status of 200 and the role.
 * @throws what the engine client throws for a stream that breaks off before its first token
 */
async function withFirstToken(answer: EngineAnswer): Promise<EngineAnswer | null> {
  if (answer.status >= 400) {
    await readPieces(answer.body, () => false);
    return null;
  }
  if (!isEventStream(answer.headers)) return answer;
  const pieces = answer.body[Symbol.asyncIterator]();
  const held: Uint8Array[] = [];
  const reader = new EventTexts();
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) return null;
    held.push(value);
    const seen = beginningIn(reader.push(value));
    if (seen === 'nothing') continue;
    if (seen === 'token') return { ...answer, body: resumed(held, pieces) };
    await pieces.return?.();
    return null;
  }
}

function beginningIn(events: readonly string[]): 'nothing' | 'token' | 'failure' {
  for (const event of events) {
    const { failed, isGivenUp } = readEvent(event, 'openai');
    if (failed !== null || isGivenUp) return 'failure';
    const data = eventData(event);
    // A comment has no data.
    if (data === '') continue;
    const { choices } = fieldsOf(jsonOrText(data));
    const { delta, finish_reason } = fieldsOf(Array.isArray(choices) ? choices[0] : null);
    // The role comes before the first token.
    const isOpening =
      fieldsOf(delta).role !== undefined && !fieldsOf(delta).content && !isFinish(finish_reason);
    if (!isOpening) return 'token';
  }
  return 'nothing';
}
