import { priceOfLaunch, requireQueueId, requireWorkerId } from '../auth.ts';
import { HttpError } from '../errors.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { dialQueue, dialRelay } from '../objects/sockets.ts';
import { noteRefusedWorkers } from '../refused-workers.ts';
import { type Gateway, requireUpgrade, route } from './route.ts';

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
