import { dialectOf } from '../../protocol/index.ts';
import type { WaitingRequest } from '../../queue/rpc.ts';
import { STREAM_URL } from '../../relay/calls.ts';
import { tenantOf } from '../auth.ts';
import { readBody } from '../body.ts';
import { objectNamed } from '../env.ts';
import { HttpError } from '../errors.ts';
import { runAttempts } from '../inference/attempt-loop.ts';
import { beginAfterMs, respondEarly } from '../inference/early-response.ts';
import { engineRequestPayload } from '../inference/engine-payload.ts';
import { respond } from '../inference/respond.ts';
import { type RequestFacts, readFacts } from '../json-scan.ts';
import { callQueue, callWorker, queueIdOf } from '../objects.ts';
import { type Gateway, type GatewayContext, needs } from './types.ts';

/** Routes of the engine whose request and answer pass through whole. */
const PASSED_THROUGH = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
] as const;

/** How long a caller waits for a slot of a worker that exists, unless X-Queue-Wait says otherwise, ms. */
const WAIT_FOR_SLOT_MS = 600_000;

/** The longest X-Queue-Wait and X-Queue-Deadline, seconds. */
const LONGEST_WAIT_SECONDS = 3600;

/** Inference: the caller waits while the request is a job. */
export function inferenceRoutes(app: Gateway): void {
  for (const path of PASSED_THROUGH) app.post(path, needs('submit'), (context) => passThrough(context, path));
}

async function passThrough(context: GatewayContext, path: string): Promise<Response> {
  const { env } = context;
  const request = context.req.raw;
  const queueId = queueIdOf(env, request);
  const given = limitsOf(request);
  const { bytes, release } = await readBody(request, env);
  let facts: RequestFacts;
  let payload: Uint8Array<ArrayBuffer>;
  try {
    facts = readFacts(bytes);
    payload = engineRequestPayload(path, bytes);
  } catch (error) {
    release();
    throw error;
  }
  const jobId = context.get('ownId');
  const hungUp = new AbortController();
  request.signal.addEventListener('abort', () => hungUp.abort());
  const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));
  const call: WaitingRequest = {
    job_id: jobId,
    job_type: 'engine_request',
    payload,
    model: facts.model,
    tenant: tenantOf(context.get('token')),
    priority: 0,
    ...waitsOf(given),
  };
  // Nothing that lives as long as the answer may refer to `call` or `bytes`: they are counted until it begins.
  const attempted = runAttempts(call, hungUp.signal, {
    queue: {
      request: (wanted) => callWorker(env, queueId, wanted, Date.now),
      cancel: (id) => callQueue(env, queueId, (queue) => queue.cancel(id, 'caller_gone', null)),
    },
    openStream: (relay, streamId, signal) =>
      // A redirect of the engine's is its answer; followed, it would lead into the relay.
      objectNamed(env.RELAY, relay).fetch(new Request(STREAM_URL + streamId, { signal, redirect: 'manual' })),
    waitUntil: (promise) => context.executionCtx.waitUntil(promise),
    now: () => Date.now(),
    sleep,
  });
  // The runtime drops a request whose caller hung up, unless something is still waited for: the cancellation.
  context.executionCtx.waitUntil(attempted.catch(() => {}));
  const over = () => release();
  void attempted.then(over, over);
  const errorOf = { dialect: dialectOf(path), requestId: context.get('requestId') };
  const answered = attempted.then((outcome) => respond(outcome, { jobId, facts, errorOf }, Date.now()));
  return await respondEarly(answered, {
    kind: facts.stream ? 'events' : 'json',
    headers: { 'x-job-id': jobId, 'x-request-id': context.get('requestId') },
    errorOf,
    timers: globalThis,
    hangUp: () => hungUp.abort(),
    afterMs: beginAfterMs([given.wait, given.deadline]),
  });
}

/** How long the caller would wait, by its own headers, ms. */
interface GivenLimits {
  wait: number | undefined;
  deadline: number | undefined;
}

/** @throws HttpError 400 */
function limitsOf(request: Request): GivenLimits {
  return { wait: secondsIn(request, 'X-Queue-Wait'), deadline: secondsIn(request, 'X-Queue-Deadline') };
}

function waitsOf({
  wait,
  deadline,
}: GivenLimits): Pick<WaitingRequest, 'wait_for_worker_ms' | 'wait_for_slot_ms' | 'deadline_ms'> {
  return {
    wait_for_worker_ms: wait ?? 0,
    wait_for_slot_ms: wait ?? WAIT_FOR_SLOT_MS,
    ...(deadline === undefined ? {} : { deadline_ms: deadline }),
  };
}

/** @returns ms */
function secondsIn(request: Request, name: 'X-Queue-Wait' | 'X-Queue-Deadline'): number | undefined {
  const header = request.headers.get(name);
  if (header === null) return undefined;
  const seconds = header.trim() === '' ? Number.NaN : Number(header);
  if (seconds >= 0 && seconds <= LONGEST_WAIT_SECONDS) return seconds * 1000;
  throw new HttpError(400, `${name}: expected seconds from 0 to ${LONGEST_WAIT_SECONDS}.`, 'invalid_wait');
}
