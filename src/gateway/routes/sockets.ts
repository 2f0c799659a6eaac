import { equalInConstantTime, replaceTokens, requireQueueId, requireWorkerId } from '../auth.ts';
import { HttpError } from '../errors.ts';
import { callQueue, closeAllSockets, closeAllViewers, dialQueue, dialRelay, queueIdOf } from '../objects.ts';
import { noteRefusedWorkers } from '../refused-workers.ts';
import { type Gateway, needs, requireUpgrade } from './types.ts';

/** Where workers dial. A denied token is an HTTP 401 or 403, which the dialling side sees as such. */
export function socketRoutes(app: Gateway): void {
  app.get('/ws', noteRefusedWorkers, needs('worker'), (context) => {
    requireUpgrade(context, 'This address is for WebSocket connections of workers.');
    const token = context.get('token');
    const workerId = context.req.query('worker_id');
    if (workerId) requireWorkerId(token, workerId);
    const queueId = queueIdOf(context.env, context.req.raw);
    requireQueueId(token, queueId);
    return dialQueue(context.env, queueId, context.req.raw, token);
  });

  app.get('/answers', needs('worker'), async (context) => {
    requireUpgrade(context, 'This address is for WebSocket connections of workers.');
    const workerId = context.req.query('worker_id');
    if (!workerId)
      throw new HttpError(400, 'The answer socket needs the query worker_id.', 'invalid_worker_id');
    requireWorkerId(context.get('token'), workerId);
    const queueId = queueIdOf(context.env, context.req.raw);
    requireQueueId(context.get('token'), queueId);
    const sessionId = context.req.query('session_id') ?? '';
    // Otherwise any worker could answer the callers of any other.
    if (!(await callQueue(context.env, queueId, (queue) => queue.hasSession(workerId, sessionId)))) {
      const message = `The worker "${workerId}" has no such session (any more): dial the newest answers_url.`;
      throw new HttpError(409, message, 'stale_session');
    }
    return dialRelay(context.env, queueId, workerId, context.req.raw);
  });

  // `worker-vllm queue` calls these; their secret is new at every start.
  app.use('/internal/*', async (context, next) => {
    const secret = context.env.INTERNAL_SECRET;
    const given = context.req.header('x-internal-secret') ?? '';
    if (!secret || !equalInConstantTime(given, secret)) return context.notFound();
    return await next();
  });

  /** Before it ends workerd. */
  app.post('/internal/close-sockets', async (context) => {
    await closeAllSockets(context.env);
    return context.json({ status: 'ok' });
  });

  /** Tokens were made or taken away. */
  app.post('/internal/tokens', async (context) => {
    const isOneGone = replaceTokens(await context.req.text(), context.env);
    // Whoever still has a good one dials again.
    if (isOneGone) await Promise.all([closeAllSockets(context.env), closeAllViewers(context.env)]);
    return context.json({ status: 'ok' });
  });
}
