import { type EngineAnswer, readPieces } from '../../engine/client/types.ts';
import { movePlan, routeOf } from '../../moving/plan.ts';
import {
  beginsObject,
  type EngineRequest,
  fieldsOf,
  hasChoices,
  type Json,
  type JsonEdits,
  jsonFields,
  jsonOrText,
  type MovePlan,
  parseJsonBytes,
  requestHeaders,
  withMembers,
} from '../../protocol/index.ts';
import { StopHold } from '../answers/stop-hold.ts';
import { idsAsked } from '../answers/token-ids.ts';
import { finalFailure } from '../failure.ts';
import type { Attempt } from './attempt.ts';
import { audioForm, namesAudio, requestBody } from './request-body.ts';

/**
 * The first version of vLLM that reports token ids of any answer. Much earlier versions already ignore fields that they
 * do not know.
 */
const TELLS_IDS = [0, 10, 2];

/**
 * Tells whether the worker knows, before its first request, that an engine accepts the fields by which it asks for
 * usage and token ids: the engine is vLLM, of a version that has them.
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

/**
 * Returns the edits that put `stream_options.include_usage` into a body; null if the body asks for no stream, asks for
 * usage itself, or has options that would change its other events too.
 */
export function usageAsked(body: Json): JsonEdits | null {
  try {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { stream, stream_options: options } = fieldsIn(bytes, ['stream', 'stream_options']);
    if (stream === undefined || parseJsonBytes(stream) !== true) return null;
    if (options === undefined || !beginsObject(options)) {
      const isNone = options === undefined || parseJsonBytes(options) === null;
      return isNone ? WITH_USAGE : null;
    }
    return mayBeAsked(options) ? { stream_options: withMembers(options, { include_usage: 'true' }) } : null;
  } catch {
    // The engine itself reports that the body is malformed.
    return null;
  }
}

const WITH_USAGE: JsonEdits = { stream_options: '{"include_usage":true}' };

function mayBeAsked(options: Uint8Array): boolean {
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

const WITH_IDS: JsonEdits = { return_token_ids: 'true' };
const WITH_STOPS: JsonEdits = { include_stop_str_in_output: 'true' };
const AS_IT_IS: JsonEdits = {};

/** The request to an engine whose answer can be moved. */
export interface Moving {
  plan: MovePlan;
  /** Whether the caller asked for the ids too, and gets them. */
  isAsked: boolean;
  /** The ids that a continuation continues from; null: the request is no continuation. */
  from: readonly number[] | null;
  /** The ids of the request's prompt; null: the engine reports them. */
  prompt: readonly number[] | null;
}

/** A request whose answer may be moved. */
interface MovableRequest {
  /** The edits that request the token ids in the body. */
  edits: JsonEdits;
  moving: Moving;
}

/** Returns the request with its edits if its answer may be moved, or the reason why the answer is not moved. */
function askIds(request: EngineRequest, body: Json, identity: string | undefined): MovableRequest | string {
  const made = request.continues ? continuedPlan(request, body) : movePlan(request.path, body);
  if (typeof made === 'string') return made;
  const plan = identified(made, identity);
  if (routeOf(plan.path) === 'tokens') return ofIds(plan, request, body);
  const text = typeof body === 'string' ? body : Buffer.from(body).toString();
  const isAsked =
    /"return_token_ids"\s*:\s*true/.test(text) && Object(jsonOrText(text)).return_token_ids === true;
  const from = request.continues ? idsAsked(jsonOrText(text)) : null;
  const withIds = isAsked ? AS_IT_IS : WITH_IDS;
  const edits = StopHold.of(plan) === null ? withIds : { ...withIds, ...WITH_STOPS };
  return { edits, moving: { plan, isAsked, from, prompt: null } };
}

/** Returns the plan with what the engine serves, so that only its equals go on with the answer. */
export function identified(plan: MovePlan, identity: string | undefined): MovePlan {
  return identity === undefined ? plan : { ...plan, model_identity: identity };
}

/** Handles a request that brings ids, and whose answer consists of ids. */
function ofIds(plan: MovePlan, { continues }: EngineRequest, body: Json): MovableRequest {
  const prompt = idsAsked(jsonOrText(Buffer.from(body).toString()));
  return { edits: AS_IT_IS, moving: { plan, isAsked: true, from: continues ? prompt : null, prompt } };
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

/** The statuses with which engines refuse a field that they do not know. */
const REFUSES_FIELD: ReadonlySet<number> = new Set([400, 422]);

type Body = string | Uint8Array | undefined;
type Ask = (body: Body) => Promise<EngineAnswer>;

/** The engine's answer, and what the worker requested in addition to the caller's request. */
export interface Answered {
  answer: EngineAnswer;
  /** Whether the worker requested a usage for which the caller did not ask. */
  added: boolean;
  /** The way to move the answer, or the reason why it is not moved; null: no answers are moved. */
  moving: Moving | string | null;
}

/** Sends a request whose answer is stored whole. */
export async function send(attempt: Attempt, request: EngineRequest): Promise<Answered> {
  // If nothing is fetched, no turn of the event loop passes, since a caller waits for each turn.
  const form = namesAudio(request) ? await audioForm(attempt, request) : null;
  const { ask, body } = prepared(attempt, request, form);
  return askMore(attempt, request, ask, body, null);
}

/** Sends a request whose answer goes to a caller as it comes. */
export async function sendMovable(attempt: Attempt, request: EngineRequest): Promise<Answered> {
  const form = namesAudio(request) ? await audioForm(attempt, request) : null;
  const { ask, body } = prepared(attempt, request, form);
  if (request.continues) return sendContinuation(attempt, request, ask, body);
  return askMore(attempt, request, ask, body, idsOf(attempt.idsAsking, request, body));
}

/**
 * Sends the request of a continuation with the ids, whether or not this worker moves its own answers: without the ids
 * it would not know where the engine continues.
 */
async function sendContinuation(
  attempt: Attempt,
  request: EngineRequest,
  ask: Ask,
  body: Body,
): Promise<Answered> {
  const wanted = askIds(request, body ?? '', attempt.idsAsking?.identity);
  if (typeof wanted === 'string') throw finalFailure('invalid_request', `payload.continues: ${wanted}`);
  const edited = withFields(body, wanted.edits, null);
  return { ...(await askMore(attempt, request, ask, edited, null)), moving: wanted.moving };
}

const REFUSED = 'its engine tells no token ids';

function idsOf(
  asking: Attempt['idsAsking'],
  request: EngineRequest,
  body: Body,
): MovableRequest | string | null {
  if (asking === null) return null;
  if (asking.engine === 'refuses') return REFUSED;
  return body === undefined ? 'it has no body' : askIds(request, body, asking.identity);
}

function prepared(
  attempt: Attempt,
  request: EngineRequest,
  form: Awaited<ReturnType<typeof audioForm>> | null,
): { ask: Ask; body: Body } {
  const body = form?.body ?? requestBody(request, attempt.modelAliases, attempt.servedModel);
  const contentType = form?.contentType ?? request.content_type;
  const { 'x-request-id': requestId = attempt.jobId, ...headers } = requestHeaders(
    Object.entries(request.headers ?? {}),
  );
  attempt.requested();
  const ask: Ask = (body) =>
    attempt.engine.request({
      method: request.method,
      path: request.path,
      headers,
      requestId,
      signal: attempt.signal,
      ...(body === undefined ? {} : { body }),
      ...(contentType === undefined ? {} : { contentType }),
    });
  return { ask, body };
}

/**
 * Sends a request with the fields by which the worker asks for more than the answer: the usage, if the queue counts it,
 * and token ids. If nobody knows whether the engine accepts these fields, a refusal may be due to them or to the
 * caller's own mistake, and an engine need not say which: the worker then repeats the request once, without them.
 */
async function askMore(
  attempt: Attempt,
  request: EngineRequest,
  ask: Ask,
  body: Body,
  movable: MovableRequest | string | null,
): Promise<Answered> {
  const usage = body !== undefined && hasChoices(request.path) ? attempt.usageAsking : null;
  const isMovable = movable !== null && typeof movable !== 'string';
  const ids = isMovable && movable.edits !== AS_IT_IS ? movable.edits : null;
  const wanted = usage === null || usage.engine === 'refuses' ? null : usageAsked(body!);
  const answer = await ask(withFields(body, ids, wanted));
  const asked = [wanted && usage, ids && attempt.idsAsking].filter((one) => one !== null);
  if (answer.status < 300) for (const one of asked) one.engine = 'takes';
  const untried = asked.filter(({ engine }) => engine === 'untried');
  const moving = typeof movable === 'string' ? movable : (movable?.moving ?? null);
  if (untried.length === 0 || !REFUSES_FIELD.has(answer.status))
    return { answer, added: wanted !== null, moving };
  await readPieces(answer.body, () => false);
  const hasIds = ids !== null && attempt.idsAsking?.engine === 'takes';
  const known = usage?.engine === 'takes' ? wanted : null;
  const answered = await ask(withFields(body, hasIds ? ids : null, known));
  // If two fields are untried, the next request finds out about the other one.
  if (answered.status < 300) untried.at(-1)!.engine = 'refuses';
  return { answer: answered, added: known !== null, moving: ids === null || hasIds ? moving : REFUSED };
}

/**
 * Puts fields into a body in one pass. @param ids edits that request token ids @param usage edits that request a usage
 */
function withFields(body: Body, ids: JsonEdits | null, usage: JsonEdits | null): Body {
  if (body === undefined || (usage === null && (ids === null || ids === AS_IT_IS))) return body;
  try {
    return withMembers(body, { ...ids, ...usage });
  } catch {
    // The check of what goes to the engine reports the fault of the body, such as a name that is no text.
    return body;
  }
}
