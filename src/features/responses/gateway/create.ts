import { type Caller, readerOf, submitterOf } from '../../../gateway/auth/authorize.ts';
import { holdBytes, parseObject, readBody } from '../../../gateway/bodies/body.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { answer } from '../../../gateway/inference/answer.ts';
import { callForResponse } from '../../../gateway/inference/call-engine.ts';
import { mostBodyBytes, readRequest } from '../../../gateway/inference/read-request.ts';
import { callResponses } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import type { GatewayContext } from '../../../gateway/routes/route.ts';
import { idOf } from '../../../protocol/ids.ts';
import { withMembers, withoutMark } from '../../../protocol/index.ts';
import { variableOf } from '../../../settings/queue-settings.ts';
import { BodyFault, type CreateFields, newResponse, readCreate } from '../create-body.ts';
import { begunResponse } from '../response-object.ts';
import type { CallerTerms, EndedResponse, Fields, NewResponse, Prepared, Refusal } from '../types.ts';
import { createInBackground } from './background.ts';
import { whenFree } from './lock.ts';
import { recorded } from './recorder.ts';
import { storesByDefault } from './store-policy.ts';

/** The path of the route. */
export const PATH = '/v1/responses';

/** The fields of a request that no engine is sent: what they ask for is done here. */
const OWN_FIELDS = {
  background: undefined,
  store: undefined,
  previous_response_id: undefined,
  conversation: undefined,
} as const;

/** Answers `POST /v1/responses`: the engine gets the whole input, and what is asked to be stored is stored here. */
export async function createResponse(context: GatewayContext): Promise<Response> {
  const { env, req, executionCtx } = context;
  const token = context.get('token');
  const queueId = queueIdOf(env, req.raw);
  const viewer = readerOf(token, env);
  const { bytes, release } = await readBody(req.raw, env, mostBodyBytes(env), variableOf('max_body_bytes'));
  const jobId = idOf('request', queueId);
  const terms: CallerTerms = {
    job: jobId,
    stored_bytes: token?.stored_bytes ?? null,
    history_bytes: mostBodyBytes(env) - bytes.byteLength,
  };
  let asked: NewResponse;
  let fields: CreateFields;
  let prepared: Prepared;
  try {
    const body = parseObject(bytes);
    fields = readFields(body, token);
    asked = newResponse(queueId, fields, submitterOf(token), '{}');
    if (fields.background)
      asked.echo = JSON.stringify(begunResponse(body, ownFields(asked, fields.metadata), Date.now()));
    const needs = needsState(fields) || (fields.store && token?.stored_bytes !== undefined);
    prepared =
      needs && !isAlone(fields) ? told(await prepare(context, asked, viewer, terms)) : { history: [] };
  } catch (error) {
    release();
    throw error;
  }
  const unlock = async () => {
    const { conversation, id } = asked;
    // A response in the background has it until it ends.
    if (conversation !== null && !fields.background)
      await callResponses(env, queueId, (responses) => responses.release(conversation, id));
  };
  try {
    const { body, free } = await grown(context, fields, bytes, prepared).catch(async (error: unknown) => {
      release();
      if (fields.background) await callResponses(env, queueId, (responses) => responses.withdraw(asked.id));
      throw error;
    });
    const releaseAll = () => {
      release();
      free();
    };
    if (fields.background) {
      const store = async () => isAlone(fields) && told(await prepare(context, asked, viewer, terms));
      return await createInBackground(context, asked, body, store).finally(releaseAll);
    }
    const incoming = {
      head: req.raw,
      pathname: PATH,
      path: PATH + new URL(req.raw.url).search,
      token,
      jobId,
      responseId: asked.id,
    };
    const request = await readRequest(env, incoming, async () => ({ bytes: body, release: releaseAll }));
    context.set('requestId', request.errorOf.requestId);
    const { attempted, hangUp } = callForResponse(context, request);
    // Once the response has begun early, `answer` throws no later failure, so the conversation is freed here.
    executionCtx.waitUntil(attempted.catch(unlock).catch(() => {}));
    const keep = async (ended: EndedResponse) => {
      if (!fields.store) return await unlock();
      await callResponses(env, queueId, (responses) => responses.keep(asked, ended, viewer));
    };
    const isLeft = () => hangUp.hasHappened;
    const recording = { fields: ownFields(asked, fields.metadata), keep, isLeft, lost: unlock };
    return await answer(env, request, attempted, hangUp, {
      passing: async (engineAnswer) => {
        try {
          return await recorded(engineAnswer, recording);
        } catch (error) {
          await unlock();
          throw error;
        }
      },
    });
  } catch (error) {
    await unlock();
    throw error;
  }
}

/**
 * Returns the body that the engine is sent; what it has more than the caller's counts against the memory of all bodies.
 * @returns `free`: gives that back
 * @throws HttpError 503
 */
async function grown(
  { env, req }: GatewayContext,
  fields: CreateFields,
  bytes: Uint8Array,
  prepared: Prepared,
): Promise<{ body: Uint8Array<ArrayBuffer>; free: () => void }> {
  const body = engineBody(withoutMark(bytes) as Uint8Array<ArrayBuffer>, fields, prepared);
  const free = holdBytes(env, Math.max(0, body.byteLength - bytes.byteLength));
  req.raw.signal.addEventListener('abort', free);
  return { body, free };
}

/** Finds what a response goes on from, and locks its conversation. */
async function prepare(
  context: GatewayContext,
  asked: NewResponse,
  viewer: string | null,
  terms: CallerTerms,
): Promise<Prepared | Refusal> {
  const { env, req } = context;
  const queueId = queueIdOf(env, req.raw);
  const prepared = () => callResponses(env, queueId, (responses) => responses.prepare(asked, viewer, terms));
  const { conversation } = asked;
  return conversation === null ? await prepared() : await whenFree(env, queueId, conversation, prepared);
}

/** Reads the fields that concern what is stored. @throws HttpError 400, 403 */
export function readFields(body: Fields, token: Caller | null): CreateFields {
  const isStored = storesByDefault(token, body);
  try {
    return readCreate(body, isStored);
  } catch (error) {
    if (error instanceof BodyFault) throw refused({ status: 400, ...faultOf(error) });
    throw error;
  }
}

function faultOf({ message, code, param }: BodyFault): Omit<Refusal, 'status'> {
  return { message, code, param };
}

/** Whether a request needs to know what came before it, or is stored before it runs. */
function needsState({ previous_response_id, conversation, background }: CreateFields): boolean {
  return previous_response_id !== null || conversation !== null || background;
}

/** Whether a response in the background goes on from nothing, so that its job need not wait for what came before. */
function isAlone({ previous_response_id, conversation, background }: CreateFields): boolean {
  return background && previous_response_id === null && conversation === null;
}

/** Returns the body that the engine is sent; bytes that need no change stay as the caller wrote them. */
export function engineBody(
  bytes: Uint8Array<ArrayBuffer>,
  fields: CreateFields,
  { history }: Prepared,
): Uint8Array<ArrayBuffer> {
  const input = history.length === 0 ? {} : { input: `[${[...history, ...ownInput(fields)].join(',')}]` };
  return withMembers(bytes, { ...OWN_FIELDS, ...input }) as Uint8Array<ArrayBuffer>;
}

function ownInput({ input }: CreateFields): string[] {
  return input.map(({ json }) => json);
}

/** Returns the fields of a Response object that the engine does not know. */
export function ownFields(asked: NewResponse, metadata: Fields): Fields {
  return {
    id: asked.id,
    background: asked.background,
    store: asked.store,
    previous_response_id: asked.previous_response_id,
    conversation: asked.conversation === null ? null : { id: asked.conversation },
    metadata,
  };
}

/** Returns what an object answered. @throws HttpError for a refusal */
export function told<T extends object>(said: T | Refusal): T {
  if ('status' in said && 'param' in said) throw refused(said);
  return said as T;
}

/** Makes the error of a refusal. */
export function refused({ status, message, code, param }: Refusal): HttpError {
  return new HttpError(status, message, code, {}, param);
}
