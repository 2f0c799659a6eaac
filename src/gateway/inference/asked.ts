import { freeBytes } from '../../durable/free-bytes.ts';
import { dialectOf, engineRoute } from '../../protocol/index.ts';
import type { WaitingRequest } from '../../queue/rpc.ts';
import type { BodyFacts, RequestFacts } from '../../request-facts/body-facts.ts';
import { lengthsOf, tokensOf } from '../../request-facts/lengths.ts';
import { QUEUE_SETTINGS } from '../../settings/queue-settings.ts';
import { type Caller, viewerOf } from '../auth.ts';
import type { HeldBody } from '../body.ts';
import type { Env } from '../env.ts';
import type { ErrorOf } from '../errors.ts';
import { modelsOf } from '../fleet-views.ts';
import { asHttp } from '../json-scan.ts';
import { lengthOfModel, submissionOf } from '../limits.ts';
import { modelAliases } from '../model-aliases.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { adapterProblem, modelProblem, permissionsOf, requestPriority } from '../permissions.ts';
import { prefixOf } from '../prompt-prefix.ts';
import type { RequestHead } from '../request-head.ts';
import { requestIdHeaders } from '../request-id.ts';
import { type EngineCall, engineCall } from './engine-request.ts';
import { makesResponse, ownerOf } from './kept-responses.ts';
import { type GivenLimits, limitsOf, waitsOf } from './time-limits.ts';

/** A request whose body has been read. */
export interface Asked {
  queueId: string;
  call: WaitingRequest & { payload: Uint8Array; tenant: string | null };
  /** Gives back the room that the body takes in memory. */
  release: () => void;
  facts: RequestFacts;
  errorOf: ErrorOf & { requestId: string };
  /** The answer's headers beside the engine's. */
  headers: Record<string, string>;
  /** What the answer may begin with before the engine's is there; null for nothing. */
  kind: 'events' | 'json' | null;
  /**
   * Whether the engine keeps the response that it makes: the gateway then has to remember which worker's engine that
   * is.
   */
  isKept: boolean;
  given: GivenLimits;
}

/** A request before its body is read. */
export interface Incoming {
  head: RequestHead;
  /** The request's path without the query. */
  pathname: string;
  /** The request's path with the query. */
  path: string;
  token: Caller | null;
  /** The id that the gateway chose for the request. */
  ownId: string;
}

/** Returns the most bytes of a body for an engine. */
export function mostBodyBytes(env: Env): number {
  return Number(env.MAX_BODY_BYTES || QUEUE_SETTINGS.max_body_bytes.default);
}

/**
 * Reads what the queue has to know of a request.
 * @param readBody is called once, when nothing else is wrong with the request
 * @throws HttpError
 */
export async function readRequest(
  env: Env,
  { head, pathname, path, token, ownId }: Incoming,
  readBody: () => Promise<HeldBody>,
): Promise<Asked> {
  const queueId = queueIdOf(env, head);
  const given = limitsOf(head, pathname, env);
  const { bytes, release } = await readBody();
  try {
    const aliases = modelAliases(env.MODEL_ALIASES);
    const read = engineCall(head, path, bytes, aliases);
    const submitter = submissionOf(token);
    const { model, stream, includeUsage, tier, previousId, isKept } = read.facts;
    const facts: RequestFacts = { model, stream, includeUsage };
    const prefix = prefixOf(read.facts.fields, { tenant: submitter.tenant, model });
    const lengths = token?.limits
      ? asHttp(() => lengthsOf(pathname, read.facts.jsonBytes, read.facts.fields))
      : null;
    const cost = lengths && tokensOf(lengths, await lengthOfModel(env, queueId, model));
    const terms = stream ? termsOf(pathname, read.facts) : undefined;
    freeBytes(bytes);
    const permissions = permissionsOf(token, aliases);
    const priority = requestPriority(read.priorities, tier, permissions);
    const owner = await ownerOf(env, queueId, path, previousId, viewerOf(token));
    // A request about a kept response names no model: the token was allowed its model when the response was made.
    const denied = owner === null || model !== null ? modelProblem([model], permissions) : null;
    const adapter = adapterProblem(read.facts, permissions);
    if (denied ?? adapter) throw denied ?? adapter;
    const requestId = read.requestId ?? ownId;
    const dialect = dialectOf(path);
    const call: Asked['call'] = {
      job_id: ownId,
      job_type: 'engine_request',
      route: pathname,
      payload: read.payload,
      model: owner ?? model ?? (engineRoute(path)?.isOfAnyModel ? await anyModel(env, queueId) : null),
      ...submitter,
      ...(cost !== null && { tokens: cost }),
      priority,
      ...(prefix !== undefined && { prefix }),
      ...(terms && { terms }),
      ...(read.requestId !== null && { request_id: read.requestId }),
      ...waitsOf(given),
    };
    return {
      queueId,
      call,
      release,
      facts,
      errorOf: { dialect, requestId },
      headers: { 'x-job-id': ownId, ...requestIdHeaders(requestId, dialect) },
      kind: earlyKind(path, read),
      isKept: isKept && makesResponse(head.method, path),
      given,
    };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Returns the bounds of an answer that moves, read from its request: what its worker reports of them does not count.
 */
function termsOf(pathname: string, { fields, jsonBytes, priority }: BodyFacts): Asked['call']['terms'] {
  const { most } = asHttp(() => lengthsOf(pathname, jsonBytes, fields));
  return { max_tokens: most, priority: typeof priority === 'number' ? priority : null };
}

async function anyModel(env: Env, queueId: string): Promise<string | null> {
  const models = await modelsOf(env, queueId);
  return models.find(({ available }) => available)?.id ?? null;
}

/**
 * Returns what an answer may begin with before it is there; null for nothing, since it may be audio or another type.
 */
function earlyKind(path: string, { facts }: EngineCall): 'events' | 'json' | null {
  const route = engineRoute(path);
  if (!route?.methods.includes('POST') || route.answers === 'bytes') return null;
  if (facts.stream) return 'events';
  return facts.mayBeBytes || route.answers === 'text' ? null : 'json';
}
