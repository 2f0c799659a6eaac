import type { MiddlewareHandler } from 'hono';
import type { RefusedWorker } from '../../fleet/rpc.ts';
import { priceOfLaunch, requireQueueId, requireWorkerId } from '../auth/authorize.ts';
import { HttpError } from '../errors.ts';
import { callFleet, callQueue } from '../objects/calls.ts';
import { isNamedQueue, queueIdOf } from '../objects/ids.ts';
import { dialQueue, dialRelay } from '../objects/sockets.ts';
import { type Environment, type Gateway, requireUpgrade, route } from './route.ts';

/**
 * Registers the sockets that workers dial. A denied token is an HTTP 401 or 403, which the dialling side sees as such.
 */
export function socketRoutes(app: Gateway): void {
  app.use('/ws', noteRefusedWorkers);
  route(app, {
    method: 'GET',
    path: '/ws',
    tag: 'Workers',
    summary: 'The control socket of a worker',
    description: 'The worker sends WorkerFrame and is sent QueueFrame (docs/protocol.md).',
    scopes: ['worker'],
    query: {
      config_id: { description: 'Its pool.' },
      worker_id: { description: 'Its id.' },
    },
    answers: { 101: { description: 'The socket is open.' } },
    errors: [426, 503],
    handler: async (context) => {
      requireUpgrade(context, 'This address is for WebSocket connections of workers.');
      const token = context.get('token');
      const workerId = context.req.query('worker_id');
      if (workerId) requireWorkerId(token, workerId);
      const queueId = queueIdOf(context.env, context.req.raw);
      requireQueueId(token, queueId);
      const price = await priceOfLaunch(context.req.raw, context.env, token);
      return dialQueue(context.env, queueId, context.req.raw, token, price);
    },
  });

  route(app, {
    method: 'GET',
    path: '/answers',
    tag: 'Workers',
    summary: 'The answer socket of a worker',
    description:
      'Binary messages of records (docs/protocol.md); AnswerHead and BrokenReason are the JSON in two of them.',
    scopes: ['worker'],
    query: {
      worker_id: { description: 'Its id.' },
      session_id: { description: 'As the control socket told it.' },
    },
    answers: { 101: { description: 'The socket is open.' } },
    errors: [400, 409, 426, 503],
    handler: async (context) => {
      requireUpgrade(context, 'This address is for WebSocket connections of workers.');
      const workerId = context.req.query('worker_id');
      if (!workerId)
        throw new HttpError(400, 'The answer socket needs the query worker_id.', 'invalid_worker_id');
      requireWorkerId(context.get('token'), workerId);
      const queueId = queueIdOf(context.env, context.req.raw);
      requireQueueId(context.get('token'), queueId);
      const sessionId = context.req.query('session_id') ?? '';
      // Without this check any worker could answer the callers of any other.
      if (!(await callQueue(context.env, queueId, (queue) => queue.hasSession(workerId, sessionId)))) {
        const message = `The worker "${workerId}" has no such session (any more): dial the newest answers_url.`;
        throw new HttpError(409, message, 'stale_session');
      }
      return dialRelay(context.env, queueId, workerId, context.req.raw);
    },
  });
}

/** The gateway tells the fleet object at most once in this many ms: refused workers may not cause more load. */
const TELL_EVERY_MS = 1000;
let toldAt = 0;

const COMMAND = 'Make one with "npx worker-vllm token create --scope worker"';
const MAKE_ONE = `${COMMAND} on the queue's machine, or with --url from elsewhere, and give it to the worker as CASOLA_API_TOKEN: the queue takes it within a second.`;

const REFUSALS: Record<string, RefusedWorker> = {
  token_missing: { why: 'it sent no token', advice: MAKE_ONE },
  token_unknown: { why: 'its token is not known here', advice: MAKE_ONE },
  scope_missing: { why: 'its token has not the scope worker', advice: MAKE_ONE },
  worker_id_denied: {
    why: 'its token is bound to another worker id',
    advice: 'Set CASOLA_INSTANCE_ID to that id, or make a token for this worker.',
  },
  tokens_needed: {
    why: 'no tokens are configured, so only this machine is served',
    advice: `${COMMAND} on the queue's machine, start the queue again, and give the token to the worker as CASOLA_API_TOKEN.`,
  },
};

/** Notes workers that may not connect, so that the page can say why a fleet is empty. */
const noteRefusedWorkers: MiddlewareHandler<Environment> = async (context, next) => {
  await next();
  const { error } = context;
  const refused = error instanceof HttpError && error.code !== null ? REFUSALS[error.code] : undefined;
  if (!refused || Date.now() - toldAt < TELL_EVERY_MS) return;
  const { env, req } = context;
  try {
    const queueId = queueIdOf(env, req.raw);
    // A stranger's request must not create an object.
    if (!isNamedQueue(env, queueId)) return;
    toldAt = Date.now();
    await callFleet(env, queueId, (fleet) => fleet.refused(refused));
  } catch {
    // The worker is refused even if this cannot be noted.
  }
};
