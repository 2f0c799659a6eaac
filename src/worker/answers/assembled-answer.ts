import type { Route } from '../../moving/plan.ts';
import { countedFrom, wholeUsageOf } from '../../moving/stitch.ts';
import {
  type AnswerPart,
  bounds,
  isFinish,
  isObject,
  type Moves,
  type PartialAnswer,
  type Stage,
} from '../../protocol/index.ts';
import { AnswerLog } from './answer-log.ts';
import type { Events } from './events.ts';

type Fields = Record<string, unknown>;

const NO_TEXT_OF_ITS_OWN = { refusal: null, annotations: null, audio: null, function_call: null };

/** The fields of an event that rule an assembled answer out: only the engine can make one piece of them. */
const PARSED: readonly string[] = ['reasoning_content', 'tool_calls'];
const ENCODED: readonly string[] = ['routed_experts', 'sampling_mask'];

const NOTHING = { ids: 0, characters: 0, reasoning: 0, logprobs: 0, size: 0 };

/**
 * Thrown if the answer must be requested in one piece, since the engine's parsers write it otherwise than its stream.
 */
export class PartsOfItsOwn extends Error {
  override name = 'PartsOfItsOwn';
}

/** Thrown if the answer has become longer than a result may be. */
export class TooLong extends Error {
  override name = 'TooLong';
}

/**
 * Assembles an answer in one piece, field by field as vLLM writes it, from the events that it streams for the same
 * request (docs/moving.md). The part that has arrived may be continued elsewhere; a continued answer begins with the
 * part that an earlier attempt generated.
 */
export class AssembledAnswer extends AnswerLog {
  readonly #route: Route;
  readonly #before: PartialAnswer | null;
  /** The token ids of prompt and answer, as long as they are known. */
  #ids: number[] = [];
  #promptTokens = 0;
  /** The number of generated tokens with which this attempt began. */
  #given = 0;
  #stage: Stage = 'running';
  #id: unknown;
  #created: unknown;
  #model: unknown;
  #metrics: unknown = null;
  #fingerprint: unknown = null;
  #usage: Fields | null = null;
  #role = 'assistant';
  #text = '';
  #reasoning = '';
  #logprobs: unknown[] | null = null;
  #finish: unknown = null;
  #stopReason: unknown = null;
  #tokenIds: number[] = [];
  #weightVersions: unknown = null;
  /** The extent of the answer that was reported to the queue, and its characters of JSON. */
  #reported = NOTHING;

  /**
   * @param before the part that an earlier attempt generated; null: this attempt generates the answer from the
   * beginning
   * @param lacking the members that events of the route `tokens` lack and the answer in one piece has
   */
  constructor(route: Route, before: PartialAnswer | null, lacking: { model: unknown; created: number }) {
    super();
    this.#route = route;
    this.#before = before;
    if (route !== 'tokens') return;
    this.#model = lacking.model;
    this.#created = lacking.created;
  }

  override moves(moves: Moves, promptIds: readonly number[]): void {
    this.#promptTokens = moves.plan.first_prompt ?? moves.prompt_tokens;
    this.#given = promptIds.length - this.#promptTokens;
    super.moves(moves, promptIds);
    if (this.#before === null) return;
    const { role, text, reasoning, logprobs } = this.#before;
    this.#role = role;
    this.#text = text;
    this.#reasoning = reasoning;
    this.#tokenIds = promptIds.slice(this.#promptTokens);
    // The last tokens may be generated again if they did not make a whole character yet.
    this.#logprobs = logprobs?.slice(0, this.#given) ?? null;
  }

  protected override idsCame(ids: readonly number[] | null, stage: Stage): void {
    for (const id of ids ?? []) this.#ids.push(id);
    this.#stage = stage;
  }

  /** Takes events. @throws PartsOfItsOwn @throws TooLong */
  override writeEvents({ list }: Events): void {
    for (const { data } of list) if (data !== null) this.#event(data);
    if (this.#characters > bounds.PAYLOAD_BYTES) throw new TooLong('it is too long for a result');
  }

  /** The approximate length of the answer, characters. */
  get #characters(): number {
    const tokens = 7 * this.#tokenIds.length + 100 * (this.#logprobs?.length ?? 0);
    return this.#text.length + this.#reasoning.length + tokens;
  }

  override get isMovable(): boolean {
    return super.isMovable && this.#stage === 'running';
  }

  /** Returns the part that another attempt could continue; null: there is none, or it is too long to be stored. */
  partial(): PartialAnswer | null {
    if (!this.isMovable || this.#ids.length <= this.#promptTokens) return null;
    const partial: PartialAnswer = {
      ...this.#madeBy(),
      prompt_tokens: this.#promptTokens,
      ids: this.#ids,
      role: this.#role,
      text: this.#text,
      reasoning: this.#reasoning,
      logprobs: this.#logprobs,
    };
    return JSON.stringify(partial).length > bounds.PARTIAL_ANSWER_CHARACTERS ? null : partial;
  }

  /**
   * Returns the part that has arrived since `partReported`, from which another attempt could go on, and its characters
   * of JSON; null if nothing has arrived, or no more of the answer can be stored.
   */
  part(): { part: AnswerPart; characters: number } | null {
    const { ids, characters, reasoning, logprobs, size } = this.#reported;
    if (!this.isMovable) return null;
    if (this.#ids.length <= Math.max(ids, this.#promptTokens)) return null;
    const part: AnswerPart = {
      ...this.#madeBy(),
      after: ids,
      prompt_tokens: this.#promptTokens,
      ids: this.#ids.slice(ids),
      role: this.#role,
      text: this.#text.slice(characters),
      reasoning: this.#reasoning.slice(reasoning),
      logprobs: this.#logprobs?.slice(logprobs) ?? null,
    };
    const { length } = JSON.stringify(part);
    return size + length <= bounds.PARTIAL_ANSWER_CHARACTERS ? { part, characters: length } : null;
  }

  /** Returns the identity of the model that made the ids. */
  #madeBy(): Pick<PartialAnswer, 'model_identity'> {
    const model_identity = this.plan?.plan.model_identity;
    return model_identity === undefined ? {} : { model_identity };
  }

  /** Notes that this part was reported to the queue. @param size its characters of JSON */
  partReported(part: AnswerPart, size: number): void {
    const { ids, characters, reasoning, logprobs, size: before } = this.#reported;
    this.#reported = {
      ids: ids + part.ids.length,
      characters: characters + part.text.length,
      reasoning: reasoning + part.reasoning.length,
      logprobs: logprobs + (part.logprobs?.length ?? 0),
      size: before + size,
    };
  }

  /** Makes the next part begin at the start, since the queue may know nothing of the answer. */
  reportAgain(): void {
    this.#reported = NOTHING;
  }

  /** Returns the whole answer, once all its events have arrived. */
  answer(): Fields {
    const usage = this.#usage ?? {};
    const common = {
      created: this.#created,
      model: this.#model,
      usage: {
        prompt_tokens_details: null,
        completion_tokens_details: null,
        ...(this.#before === null ? usage : wholeUsageOf(usage, this.#promptTokens)),
      },
      kv_transfer_params: null,
      ec_transfer_params: null,
      metrics: this.#metrics,
    };
    if (this.#route === 'tokens') return this.#tokensAnswer(common);
    const isChat = this.#route === 'chat';
    const finish = { finish_reason: this.#finish, stop_reason: this.#stopReason, token_ids: null };
    return {
      id: this.#id,
      object: isChat ? 'chat.completion' : 'text_completion',
      choices: [isChat ? this.#chatChoice(finish) : this.#textChoice(finish)],
      service_tier: null,
      system_fingerprint: this.#fingerprint,
      ...common,
      ...(isChat && { prompt_logprobs: null, prompt_token_ids: null, prompt_text: null }),
    };
  }

  #chatChoice(finish: Fields): Fields {
    const reasoning = this.#reasoning || null;
    const content = this.#text === '' && reasoning !== null ? null : this.#text;
    const message = { role: this.#role, content, ...NO_TEXT_OF_ITS_OWN, reasoning };
    const logprobs = this.#logprobs === null ? null : { content: this.#logprobs };
    return { index: 0, message, logprobs, ...finish, routed_experts: null };
  }

  #textChoice(finish: Fields): Fields {
    const prompt = { prompt_logprobs: null, prompt_token_ids: null };
    return { index: 0, text: this.#text, logprobs: null, ...finish, ...prompt, routed_experts: null };
  }

  #tokensAnswer(common: Fields): Fields {
    const choice = {
      index: 0,
      finish_reason: this.#finish,
      stop_reason: this.#stopReason,
      token_ids: this.#tokenIds,
      weight_versions: this.#weightVersions,
      logprobs: this.#logprobs === null ? null : { content: this.#logprobs },
      ...{ routed_experts: null, sampling_mask: null },
    };
    const ofPrompt = { prompt_logprobs: null, prompt_token_id_logprobs: null, prompt_token_ids: null };
    const more = { ...ofPrompt, mm_placeholders: null, output_mode: 'tokens' };
    return { request_id: this.#id, ...common, ...more, choices: [choice] };
  }

  #event({ id, request_id, created, model, system_fingerprint, usage, metrics, choices }: Fields): void {
    this.#id ??= id ?? request_id;
    this.#created ??= created;
    this.#model ??= model;
    this.#metrics = metrics ?? this.#metrics;
    this.#fingerprint = system_fingerprint ?? this.#fingerprint;
    if (!Array.isArray(choices)) return;
    if (isObject(usage)) this.#usage = usage;
    for (const choice of choices as Fields[]) this.#choice(choice);
  }

  #choice(choice: Fields): void {
    const { text, delta, logprobs, finish_reason, stop_reason, token_ids, weight_versions } = choice;
    const said = isObject(delta) ? delta : { content: text };
    const isParted = PARSED.some((name) => Object(said[name]).length > 0);
    if (isParted || ENCODED.some((name) => choice[name])) throw new PartsOfItsOwn('it has parts of its own');
    if (Array.isArray(token_ids)) this.#tokenIds.push(...(token_ids as number[]));
    this.#weightVersions = countedFrom(this.#given, weight_versions) ?? this.#weightVersions;
    if (typeof said.role === 'string' && this.#before === null) this.#role = said.role;
    if (typeof said.content === 'string') this.#text += said.content;
    if (typeof said.reasoning === 'string') this.#reasoning += said.reasoning;
    const { content } = Object(logprobs) as { content?: unknown };
    if (Array.isArray(content)) {
      this.#logprobs ??= [];
      this.#logprobs.push(...content);
    }
    if (isFinish(finish_reason)) this.#finish = finish_reason;
    this.#stopReason = stop_reason ?? this.#stopReason;
  }
}
