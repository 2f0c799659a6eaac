import { movePlan, routeOf } from '../../moving/plan.ts';
import {
  beginsObject,
  type EngineRequest,
  fieldsOf,
  type Json,
  jsonFields,
  jsonOrText,
  type MovePlan,
  parseJsonBytes,
  withMemberAt,
  withMembers,
} from '../../protocol/index.ts';
import { StopHold } from '../answers/stop-hold.ts';
import { idsAsked } from '../answers/token-ids.ts';

/**
 * vLLM's first version that reports token ids of any answer. vLLM has ignored fields that it does not know since much
 * earlier versions.
 */
const TELLS_IDS = [0, 10, 2];

/**
 * Tells whether the worker knows, before its first request, that an engine takes the fields by which it asks for usage
 * and token ids: the engine is vLLM, of a version that has them.
 * @param cards the engine's cards of its models
 * @param version as the engine reports it
 */
export function takesFields(cards: readonly object[], version: string | null): boolean {
  const isVllm = cards.some((card) => fieldsOf(card).owned_by === 'vllm');
  const numbers = /^v?(\d+)\.(\d+)\.(\d+)/
    .exec(version ?? '')
    ?.slice(1)
    .map(Number);
  if (!isVllm || numbers === undefined) return false;
  const at = numbers.findIndex((number, index) => number !== TELLS_IDS[index]);
  return at < 0 || numbers[at]! > TELLS_IDS[at]!;
}

/** Records whether this engine takes requests for the usage of streams. An engine that refuses is not asked again. */
export interface UsageAsking {
  engine: 'untried' | 'takes' | 'refuses';
}

/** Records whether this engine takes requests for token ids. */
export interface IdsAsking extends UsageAsking {
  /**
   * True once the engine has streamed parts that only it can put together: it is asked for the answers of stored jobs
   * in one piece (run/assembled.ts).
   */
  parses?: boolean;
}

/**
 * Returns the body with `stream_options.include_usage` put in, every other byte as it was. Returns null if the body
 * asks for no stream, asks for usage itself, or has options that would change its other events too.
 */
export function askUsage(body: Json): Json | null {
  try {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { stream, stream_options: options } = fieldsIn(bytes, ['stream', 'stream_options']);
    if (stream === undefined || parseJsonBytes(stream) !== true) return null;
    if (options !== undefined && !mayBeAsked(options)) return null;
    return withMemberAt(body, ['stream_options', 'include_usage'], 'true');
  } catch {
    // The engine reports the fault of the body.
    return null;
  }
}

function mayBeAsked(options: Uint8Array): boolean {
  if (!beginsObject(options)) return parseJsonBytes(options) === null;
  const { include_usage, continuous_usage_stats } = fieldsIn(options, [
    'include_usage',
    'continuous_usage_stats',
  ]);
  // Continuous stats take effect only with `include_usage`, and then in every event.
  if (continuous_usage_stats !== undefined) return false;
  return include_usage === undefined || parseJsonBytes(include_usage) !== true;
}

function fieldsIn<Name extends string>(json: Uint8Array, names: readonly Name[]) {
  return jsonFields(json, names, Number.POSITIVE_INFINITY);
}

const ASKED = { return_token_ids: 'true' };
const STOPS_SHOWN = { include_stop_str_in_output: 'true' };

/** The request to an engine whose answer can be moved. */
export interface Moving {
  plan: MovePlan;
  /** True if the caller asked for the ids too, and gets them. */
  isAsked: boolean;
  /** The ids that a continuation goes on from; null: the request is none. */
  from: readonly number[] | null;
  /** The ids of the request's prompt; null: the engine reports them. */
  prompt: readonly number[] | null;
}

/** A request whose answer may be moved. */
export interface MovableRequest {
  /** The request's body with the token ids asked for; every other byte is as it was. */
  body: Json;
  moving: Moving;
}

/** Returns the request as one whose answer may be moved, or the reason why the answer is not moved. */
export function askIds(request: EngineRequest, body: Json): MovableRequest | string {
  const plan = request.continues ? continuedPlan(request, body) : movePlan(request.path, body);
  if (typeof plan === 'string') return plan;
  if (routeOf(plan.path) === 'tokens') return withIds(plan, request, body);
  const text = typeof body === 'string' ? body : Buffer.from(body).toString();
  const isAsked =
    /"return_token_ids"\s*:\s*true/.test(text) && Object(jsonOrText(text)).return_token_ids === true;
  const from = request.continues ? idsAsked(jsonOrText(text)) : null;
  const added = { ...(!isAsked && ASKED), ...(StopHold.of(plan) !== null && STOPS_SHOWN) };
  const moving = { plan, isAsked, from, prompt: null };
  return { body: Object.keys(added).length === 0 ? body : withMembers(body, added), moving };
}

/** Handles a request that brings ids, and whose answer is ids. */
function withIds(plan: MovePlan, { continues }: EngineRequest, body: Json): MovableRequest {
  const prompt = idsAsked(jsonOrText(Buffer.from(body).toString()));
  return { body, moving: { plan, isAsked: true, from: continues ? prompt : null, prompt } };
}

/** Returns the plan of a continuation, whose request states the caller's own number of prompt tokens. */
function continuedPlan(request: EngineRequest, body: Json): MovePlan | string {
  const { kv_transfer_params: _, ...rest } = Object(jsonOrText(Buffer.from(body).toString()));
  // The plan does not depend on the length of the prompt.
  const short = {
    ...(Array.isArray(rest.prompt) && { prompt: [0] }),
    ...(Array.isArray(rest.token_ids) && { token_ids: [0] }),
  };
  const plan = movePlan(request.path, JSON.stringify({ ...rest, ...short }));
  return typeof plan === 'string' ? plan : { ...plan, first_prompt: request.continues!.prompt_tokens };
}
