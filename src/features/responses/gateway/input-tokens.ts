import type { Outcome } from '../../../asking/attempt-loop.ts';
import { readerOf, submitterOf } from '../../../gateway/auth/authorize.ts';
import { parseObject, readBody } from '../../../gateway/bodies/body.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { callForResponse } from '../../../gateway/inference/call-engine.ts';
import { mostBodyBytes, readRequest } from '../../../gateway/inference/read-request.ts';
import { respond } from '../../../gateway/inference/respond.ts';
import { callResponses } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import type { GatewayContext } from '../../../gateway/routes/route.ts';
import { engineJson, fieldsOf, withMembers, withoutMark } from '../../../protocol/index.ts';
import { variableOf } from '../../../settings/queue-settings.ts';
import { newResponse } from '../create-body.ts';
import type { Fields } from '../types.ts';
import { chatRequestOf } from '../worker/chat-request.ts';
import { Unsayable } from '../worker/unsayable.ts';
import { engineBody, PATH, readFields, told } from './create.ts';

/**
 * The statuses with which engines and workers answer for a route that they do not have. vLLM says 403 of the route that
 * renders, unless it was started with `--enable-scale-out`.
 */
const LACKS_ROUTE: ReadonlySet<number> = new Set([403, 404, 405, 501]);

/** The end of a request to an engine. */
interface Asked {
  outcome: Outcome;
  response: Response;
}

/**
 * Answers `POST /v1/responses/input_tokens`: how many tokens a request would give the model, with all that comes
 * before its input. Nothing is stored, and no conversation is locked.
 */
export async function countInputTokens(context: GatewayContext): Promise<Response> {
  const { env, req } = context;
  const token = context.get('token');
  const queueId = queueIdOf(env, req.raw);
  const { bytes, release } = await readBody(req.raw, env, mostBodyBytes(env), variableOf('max_body_bytes'));
  try {
    const fields = readFields({ ...parseObject(bytes), background: false }, token);
    const asked = newResponse(queueId, fields, submitterOf(token), '{}');
    const goesOn = fields.previous_response_id !== null || fields.conversation !== null;
    const history = () =>
      callResponses(env, queueId, (responses) =>
        responses.history(asked, readerOf(token, env), mostBodyBytes(env) - bytes.byteLength),
      );
    const prepared = goesOn ? told(await history()) : { history: [] };
    const whole = engineBody(withoutMark(bytes) as Uint8Array<ArrayBuffer>, fields, prepared);
    const body = withMembers(whole, { stream: undefined, stream_options: undefined }) as typeof whole;
    const chat = chatOf(body);
    return await countedBy(context, body, chat);
  } finally {
    release();
  }
}

async function countedBy(
  context: GatewayContext,
  body: Uint8Array<ArrayBuffer>,
  chat: Uint8Array<ArrayBuffer> | HttpError,
): Promise<Response> {
  const rendered = await ask(context, `${PATH}/render`, body);
  const tokens = await countIn(rendered, ({ token_ids: ids }) => (Array.isArray(ids) ? ids.length : null));
  if (tokens !== null) return counted(context, tokens);
  if (!rendered.response.ok && !lacksRoute(rendered)) return rendered.response;
  if (chat instanceof HttpError) throw chat;
  const tokenized = await ask(context, '/tokenize', chat);
  const count = await countIn(tokenized, ({ count }) => Number(count) || null);
  if (count !== null) return counted(context, count);
  if (!tokenized.response.ok && !lacksRoute(tokenized)) return tokenized.response;
  const message =
    'The engine of this model cannot count the tokens of a response: it has neither /v1/responses/render nor a /tokenize that takes messages. The usage of a response says them afterwards.';
  throw new HttpError(501, message, 'not_supported');
}

function counted(context: GatewayContext, input_tokens: number): Response {
  return context.json({ object: 'response.input_tokens', input_tokens });
}

/** Returns the request as a chat whose tokens can be counted, or why there is none. */
function chatOf(body: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> | HttpError {
  try {
    const { model, messages, tools } = chatRequestOf(
      fieldsOf(engineJson(new TextDecoder().decode(body))?.value),
    ).chat;
    return new TextEncoder().encode(JSON.stringify({ model, messages, tools })) as Uint8Array<ArrayBuffer>;
  } catch (error) {
    if (!(error instanceof Unsayable)) throw error;
    return new HttpError(400, error.message, 'unsupported', {}, error.param);
  }
}

/** Asks an engine, as a request of its own. */
async function ask(context: GatewayContext, path: string, body: Uint8Array<ArrayBuffer>): Promise<Asked> {
  const { env, req } = context;
  const incoming = {
    head: req.raw,
    pathname: path,
    path,
    token: context.get('token'),
  };
  // The engine's request has bytes of its own, which are freed once it has them.
  const request = await readRequest(env, incoming, async () => ({ bytes: body.slice(), release: () => {} }));
  const outcome = await callForResponse(context, request).attempted;
  const { call, facts, errorOf } = request;
  return { outcome, response: respond(outcome, { jobId: call.job_id, facts, errorOf }, Date.now()) };
}

/** Says whether the engine or its worker does not have the route; a queue that refuses the request says other things. */
function lacksRoute({ outcome, response }: Asked): boolean {
  if (outcome.kind === 'refused') return false;
  // A worker asks its engine for no route that is not on its list.
  const isOffList = outcome.kind === 'failed' && outcome.failure.code === 'invalid_request';
  return isOffList || LACKS_ROUTE.has(response.status);
}

/** Reads a number of tokens from an answer; null: it has none. */
async function countIn({ response }: Asked, read: (answer: Fields) => number | null): Promise<number | null> {
  if (!response.ok) return null;
  return read(fieldsOf(engineJson(await response.text())?.value));
}
