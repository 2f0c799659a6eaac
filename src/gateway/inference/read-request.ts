import type { FilteredRequest } from '../../asking/filters.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import { idOf } from '../../protocol/ids.ts';
import { dialectOf, engineRoute, plainPath } from '../../protocol/index.ts';
import type { WaitingRequest } from '../../queue/rpc.ts';
import type { BodyFacts, RequestFacts } from '../../request-facts/body-facts.ts';
import { boundOf, costOf, lengthsOf } from '../../request-facts/lengths.ts';
import { QUEUE_SETTINGS } from '../../settings/queue-settings.ts';
import { parseRequestTimeouts, type RequestTimeouts } from '../../settings/request-timeouts.ts';
import { aliasesFor } from '../auth/aliases.ts';
import { type Caller, submitterOf } from '../auth/authorize.ts';
import { adapterProblem, modelProblem, permissionsOf, requestPriority } from '../auth/permissions.ts';
import { lengthOfModel, submissionOf } from '../auth/terms.ts';
import { asHttp, type HeldBody } from '../bodies/body.ts';
import type { Env, RequestHead } from '../env.ts';
import { type ErrorOf, HttpError } from '../errors.ts';
import { modelsOf } from '../fleet-views.ts';
import { requestIdHeaders } from '../middleware.ts';
import { queueIdOf } from '../objects/ids.ts';
import { prefixOf } from '../prompt-prefix.ts';
import { sessionOf } from '../session-key.ts';
import { type EngineCall, engineCall } from './engine-request.ts';
import { AskedRequest, filteredBody } from './filtered.ts';

/** A request whose body has been read. */
export interface InferenceRequest {
  queueId: string;
  call: WaitingRequest & { payload: Uint8Array; tenant: string | null };
  /** Gives back the room that the body takes in memory. */
  release: () => void;
  facts: RequestFacts;
  errorOf: ErrorOf & { requestId: string };
  /** The answer's headers beside the engine's. */
  headers: Record<string, string>;
  /** The form in which the answer may begin before the engine's is there; null if it may not. */
  kind: 'events' | 'json' | null;
  given: GivenLimits;
  /** The request as filters know it; null: the queue has no filters. */
  asked: FilteredRequest | null;
}

/** A request before its body is read. */
export interface Incoming {
  head: RequestHead;
  /** The request's path without the query. */
  pathname: string;
  /** The request's path with the query. */
  path: string;
  token: Caller | null;
  /** The id of the request's job where it is known before the body is read; else `readRequest` makes it. */
  jobId?: string;
  /** The id that the response will have; left out: the engine's. */
  responseId?: string;
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
  { head, pathname, path, token, jobId: known, responseId }: Incoming,
  readBody: () => Promise<HeldBody>,
): Promise<InferenceRequest> {
  const queueId = queueIdOf(env, head);
  const given = limitsOf(head, pathname, env);
  const { bytes, release } = await readBody();
  try {
    const submitter = submissionOf(token);
    const jobId = known ?? idOf('request', queueId);
    const dialect = dialectOf(path);
    let read = engineCall(head, path, bytes);
    const asked = env.filters
      ? askedOf(env, { queueId, jobId, responseId, pathname, head, token, read })
      : null;
    const changed = asked && (await filteredBody(env, asked, bytes));
    if (changed) read = engineCall(head, path, changed);
    const { model, stream, includeUsage, tier } = read.facts;
    const facts: RequestFacts = { model, stream, includeUsage };
    const prefix = prefixOf(read.facts.fields, { tenant: submitter.tenant, model });
    const lengths = token?.limits
      ? asHttp(() => lengthsOf(pathname, read.facts.jsonBytes, read.facts.fields))
      : null;
    const cost = lengths && costOf(lengths, await lengthOfModel(env, queueId, model));
    const terms = stream ? termsOf(pathname, read.facts) : undefined;
    const session = sessionOf(head.headers.get('x-session-id'), read.facts.fields);
    freeBytes(bytes);
    const permissions = permissionsOf(token, await aliasesFor(env, queueId, token));
    const priority = requestPriority(read.priorities, tier, permissions);
    const denied = modelProblem([model], permissions);
    const adapter = adapterProblem(read.facts, permissions);
    if (denied ?? adapter) throw denied ?? adapter;
    const requestId = read.requestId ?? jobId;
    const call: InferenceRequest['call'] = {
      job_id: jobId,
      job_type: 'engine_request',
      route: pathname,
      payload: read.payload,
      model: model ?? (engineRoute(path)?.isOfAnyModel ? await anyModel(env, queueId) : null),
      ...session,
      ...submitter,
      ...(cost !== null && { cost }),
      priority,
      ...(prefix !== undefined && { prefix }),
      ...(terms && { terms }),
      ...(read.requestId !== null && { request_id: read.requestId }),
      ...asked?.takeNotes(),
      ...waitsOf(given),
    };
    return {
      queueId,
      call,
      release,
      facts,
      errorOf: { dialect, requestId },
      headers: { 'x-job-id': jobId, ...requestIdHeaders(requestId, dialect) },
      kind: earlyKind(path, read),
      given,
      asked,
    };
  } catch (error) {
    release();
    throw error;
  }
}

/** Returns a request as filters know it. */
function askedOf(
  env: Env,
  given: Pick<Incoming, 'head' | 'pathname' | 'token'> & {
    queueId: string;
    jobId: string;
    responseId: string | undefined;
    read: EngineCall;
  },
): AskedRequest {
  const { queueId, jobId, responseId, pathname, head, token, read } = given;
  const { tenant, token_name: tokenName } = submitterOf(token);
  const contentType = head.headers.get('content-type');
  const { model } = read.facts;
  const requestId = read.requestId ?? jobId;
  const path = plainPath(pathname);
  return new AskedRequest(env, {
    road: 'live',
    queueId,
    jobId,
    tenant,
    tokenName,
    keep: token?.keep ?? null,
    path,
    model,
    contentType,
    requestId,
    responseId,
  });
}

/**
 * Returns the bounds of an answer that moves, read from its request: what its worker reports of them does not count.
 */
function termsOf(pathname: string, { fields, priority }: BodyFacts): InferenceRequest['call']['terms'] {
  const max_tokens = asHttp(() => boundOf(pathname, fields));
  return { max_tokens, priority: typeof priority === 'number' ? priority : null };
}

async function anyModel(env: Env, queueId: string): Promise<string | null> {
  const models = await modelsOf(env, queueId);
  return models.find(({ available }) => available)?.id ?? null;
}

/**
 * Returns the form in which an answer may begin before the engine's is there; null if it may not, since it may be audio
 * or another type.
 */
function earlyKind(path: string, { facts }: EngineCall): 'events' | 'json' | null {
  const route = engineRoute(path);
  if (!route?.methods.includes('POST') || route.answers === 'bytes') return null;
  if (facts.stream) return 'events';
  return facts.mayBeBytes || route.answers === 'text' ? null : 'json';
}

/** A caller waits this many ms for a slot of a worker that exists, unless X-Queue-Wait says otherwise. */
const WAIT_FOR_SLOT_MS = 600_000;

/** The longest X-Queue-Wait, X-Queue-Deadline and X-Request-Timeout, seconds. */
const LONGEST_WAIT_SECONDS = 3600;

/** A request's time limits, ms. */
interface GivenLimits {
  wait: number | undefined;
  deadline: number | undefined;
  limit: number | undefined;
}

/** Returns the limits that a request's headers and the queue's limits by route give it. @throws HttpError 400 */
function limitsOf({ headers }: RequestHead, pathname: string, env: Env): GivenLimits {
  const limits = [secondsIn(headers, 'X-Request-Timeout'), timeoutsOf(env).of(pathname)];
  const given = limits.filter((limit) => limit !== undefined);
  return {
    wait: secondsIn(headers, 'X-Queue-Wait'),
    deadline: secondsIn(headers, 'X-Queue-Deadline'),
    limit: given.length === 0 ? undefined : Math.min(...given),
  };
}

/** The time limits by route, parsed once for each text that describes them. */
let timeouts: { text: string; read: RequestTimeouts } | null = null;

function timeoutsOf({ REQUEST_TIMEOUTS: text = '' }: Env): RequestTimeouts {
  if (timeouts?.text !== text) timeouts = { text, read: parseRequestTimeouts(text) };
  return timeouts.read;
}

/** Returns the time limits in the queue's form. */
function waitsOf({
  wait,
  deadline,
  limit,
}: GivenLimits): Pick<
  WaitingRequest,
  'wait_for_worker_ms' | 'waits_for_start' | 'wait_for_slot_ms' | 'deadline_ms' | 'limit_ms'
> {
  return {
    wait_for_worker_ms: wait ?? 0,
    waits_for_start: wait === undefined,
    wait_for_slot_ms: wait ?? WAIT_FOR_SLOT_MS,
    ...(deadline === undefined ? {} : { deadline_ms: deadline }),
    ...(limit === undefined ? {} : { limit_ms: limit }),
  };
}

/** Reads a time limit. @returns the header's time in ms; undefined: it was not sent @throws HttpError 400 */
export function secondsIn(
  headers: RequestHead['headers'],
  name: 'X-Queue-Wait' | 'X-Queue-Deadline' | 'X-Request-Timeout',
): number | undefined {
  const header = headers.get(name);
  if (header === null) return undefined;
  const seconds = header.trim() === '' ? Number.NaN : Number(header);
  if (seconds >= 0 && seconds <= LONGEST_WAIT_SECONDS) return seconds * 1000;
  throw new HttpError(400, `${name}: expected seconds from 0 to ${LONGEST_WAIT_SECONDS}.`, 'invalid_wait');
}
