import { type Outcome, runAttempts } from '../../asking/attempt-loop.ts';
import { HangUp } from '../../asking/hang-up.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import { dialectOf, inferenceRoutes, isInferenceRoute, type RouteList } from '../../protocol/index.ts';
import type { WaitingRequest } from '../../queue/rpc.ts';
import type { BodyFacts, RequestFacts } from '../../request-facts/body-facts.ts';
import { lengthsOf, tokensOf } from '../../request-facts/lengths.ts';
import { QUEUE_SETTINGS, variableOf } from '../../settings/queue-settings.ts';
import { authorize, viewerOf } from '../auth.ts';
import { readBody } from '../body.ts';
import { adapterProblem, boundsOf, modelProblem, requestPriority } from '../bounds.ts';
import type { Env } from '../env.ts';
import { type ErrorOf, HttpError, otherMethod } from '../errors.ts';
import { modelsOf } from '../fleet-views.ts';
import { beginAfterMs, respondEarly } from '../inference/early-response.ts';
import { type EngineCall, engineCall } from '../inference/engine-request.ts';
import { makesResponse, ownerOf, rememberingOwner } from '../inference/kept-responses.ts';
import { respond } from '../inference/respond.ts';
import { type GivenLimits, limitsOf, waitsOf } from '../inference/time-limits.ts';
import { waitingPlace } from '../inference/waiting-place.ts';
import { asHttp } from '../json-scan.ts';
import { lengthOfModel, submissionOf } from '../limits.ts';
import { modelAliases } from '../model-aliases.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { callWorker } from '../objects/work.ts';
import { prefixOf } from '../prompt-prefix.ts';
import { requestIdHeaders } from '../request-id.ts';
import { PASSED_THROUGH } from './passed-through.ts';
import { type Gateway, type GatewayContext, needs } from './route.ts';

const BODY = QUEUE_SETTINGS.max_body_bytes;

/** The list of routes, read once for each text that describes it. */
let routes: { text: string; list: RouteList } | null = null;

function routesOf({ INFERENCE_ROUTES: text = '' }: Env): RouteList {
  if (routes?.text !== text) routes = { text, list: inferenceRoutes(text) };
  return routes.list;
}

/**
 * Inference: the caller waits while the request is a job. One way for every route of the engine's that is on the
 * list, so this comes after all routes of the gateway's own.
 */
export function inferenceRoute(app: Gateway): void {
  app.rows.push(...PASSED_THROUGH);
  for (const path of ['/v1/realtime', '/v1/realtime/*']) app.all(path, needs('submit'), rejectRealtime);

  app.all('*', async (context, next) => {
    const { pathname, search } = new URL(context.req.raw.url);
    // A slash at the end means the same to engines, which redirect.
    const path = pathname.replace(/(?<=.)\/$/, '');
    const methods = routesOf(context.env).methodsOf(path);
    if (methods.length === 0) return await next();
    const { method } = context.req;
    if (!methods.includes(method)) throw otherMethod(method, path, methods);
    context.set('token', await authorize(context.req.raw, context.env, ['submit']));
    return passThrough(context, path, search);
  });
}

function rejectRealtime(): never {
  throw new HttpError(
    501,
    'Realtime sessions do not pass through: they are WebSockets between caller and engine. Use /v1/audio/transcriptions or /v1/chat/completions.',
    'realtime_not_supported',
  );
}

async function passThrough(context: GatewayContext, pathname: string, search: string): Promise<Response> {
  const asked = await readRequest(context, pathname, pathname + search);
  const hangUp = new HangUp();
  // The runtime drops a request whose caller hung up: nothing that waits for anything runs after this. `readBody` gives
  // back what its body held.
  context.req.raw.signal.addEventListener('abort', () => hangUp.happen());
  // Not awaited: this function ends here, and holds no payload while the answer runs.
  return answer(context, asked, callEngine(context, asked, hangUp), hangUp);
}

/** A request whose body has been read. */
interface Asked {
  queueId: string;
  call: WaitingRequest & { payload: Uint8Array; tenant: string | null };
  /** Gives back the room that the body takes. */
  release: () => void;
  facts: RequestFacts;
  errorOf: ErrorOf;
  /** Of the answer, beside the engine's. */
  headers: Record<string, string>;
  /** What the answer may begin with before the engine's is there. */
  kind: 'events' | 'json' | null;
  /** The engine keeps the response that it makes: the gateway has to remember which worker's engine that is. */
  isKept: boolean;
  given: GivenLimits;
}

/** @param path with its query @throws HttpError */
async function readRequest(context: GatewayContext, pathname: string, path: string): Promise<Asked> {
  const { env } = context;
  const request = context.req.raw;
  const queueId = queueIdOf(env, request);
  const given = limitsOf(request, pathname, env);
  const most = Number(env.MAX_BODY_BYTES || BODY.default);
  const { bytes, release } = await readBody(request, env, most, variableOf('max_body_bytes'));
  try {
    const aliases = modelAliases(env.MODEL_ALIASES);
    const read = engineCall(request, path, bytes, aliases);
    const token = context.get('token');
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
    const bound = boundsOf(token, aliases);
    const priority = requestPriority(read.priorities, tier, bound);
    const owner = await ownerOf(env, queueId, path, previousId, viewerOf(token));
    // What is asked about a response is asked of a model that its token was let to.
    const denied = owner === null || model !== null ? modelProblem([model], bound) : null;
    const adapter = adapterProblem(read.facts, bound);
    if (denied ?? adapter) throw denied ?? adapter;
    const jobId = context.get('ownId');
    const requestId = read.requestId ?? jobId;
    context.set('requestId', requestId);
    const dialect = dialectOf(path);
    const call: Asked['call'] = {
      job_id: jobId,
      job_type: 'engine_request',
      route: pathname,
      payload: read.payload,
      model: owner ?? model ?? (ABOUT_ENGINES.test(path) ? await anyModel(env, queueId) : null),
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
      headers: { 'x-job-id': jobId, ...requestIdHeaders(requestId, dialect) },
      kind: earlyKind(path, read),
      isKept: isKept && makesResponse(request.method, path),
      given,
    };
  } catch (error) {
    release();
    throw error;
  }
}

/** Returns the bounds of an answer that moves, read from its request: what its worker says of them does not count. */
function termsOf(pathname: string, { fields, jsonBytes, priority }: BodyFacts): Asked['call']['terms'] {
  const { most } = asHttp(() => lengthsOf(pathname, jsonBytes, fields));
  return { max_tokens: most, priority: typeof priority === 'number' ? priority : null };
}

/** Asks workers until one answers. Frees the payload as soon as no further attempt is possible. */
function callEngine(
  { env, executionCtx }: GatewayContext,
  { queueId, call, release, headers }: Asked,
  hangUp: HangUp,
): Promise<Outcome> {
  const { payload } = call;
  let asking: Promise<unknown> = Promise.resolve();
  const attempted = runAttempts(call, hangUp, {
    queue: {
      request: (wanted) => {
        const asked = callWorker(env, queueId, wanted, Date.now);
        asking = asked.catch(() => {});
        return asked;
      },
      cancel: (id) => callQueue(env, queueId, (queue) => queue.cancel(id, 'caller_gone', null)),
    },
    openStream: (streamId, { call: { payload: _, ...call }, worker_id, headers: limits }) => {
      const more = { ...headers, ...limits };
      const asked = { call, queue_id: queueId, worker_id, more };
      return env.objects.relay(queueId, worker_id).open(streamId, more, asked);
    },
    waitUntil: (promise) => executionCtx.waitUntil(promise),
    now: () => Date.now(),
    sleep: (ms) => new Promise<void>((done) => setTimeout(done, ms)),
  });
  const over = () => {
    release();
    // The queue may read the payload until it has answered, also that of a caller that is gone.
    void asking.then(() => freeBytes(payload));
  };
  void attempted.then(over, over);
  return attempted;
}

/** The answer, begun before the engine's is there where that takes long. */
function answer(
  { env }: GatewayContext,
  { queueId, call: { job_id: jobId, tenant }, facts, errorOf, headers, kind, isKept, given }: Asked,
  attempted: Promise<Outcome>,
  hangUp: HangUp,
): Promise<Response> {
  const answered = attempted.then((outcome) => {
    const response = respond(outcome, { jobId, facts, errorOf }, Date.now());
    return isKept ? rememberingOwner(env, queueId, jobId, tenant, response) : response;
  });
  if (kind === null) return answered;
  return respondEarly(answered, {
    kind,
    headers,
    errorOf,
    timers: globalThis,
    hangUp: () => hangUp.happen(),
    afterMs: beginAfterMs(Object.values(given)),
    progress: () => {
      const ask = () => callQueue(env, queueId, (queue) => queue.waitingLines());
      return waitingPlace(queueId, jobId, ask, Date.now);
    },
  });
}

/** Routes that any engine can answer: without a model, and where there are several. */
const ABOUT_ENGINES = /^\/(version|ping)(\?|$)/;

async function anyModel(env: Env, queueId: string): Promise<string | null> {
  const models = await modelsOf(env, queueId);
  return models.find(({ available }) => available)?.id ?? null;
}

/** What an answer may begin with before it is there; null: nothing, since it may be audio or another type. */
function earlyKind(path: string, { facts }: EngineCall): 'events' | 'json' | null {
  if (path.startsWith('/v1/audio/speech') || !isInferenceRoute('POST', path)) return null;
  if (facts.stream) return 'events';
  return facts.mayBeBytes || /^\/(v1\/audio|ping)/.test(path) ? null : 'json';
}
