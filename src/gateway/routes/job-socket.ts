import { quietly } from '../../durable/quietly.ts';
import { auditedOfJob, stateAfter } from '../audit.ts';
import { readerOf, viewerOf } from '../auth.ts';
import { holdBytes } from '../body.ts';
import { boundsOf } from '../bounds.ts';
import { JobSocket } from '../job-socket.ts';
import { submissionOf } from '../limits.ts';
import { modelAliases } from '../model-aliases.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { submitAndListen } from '../objects/submit-jobs.ts';
import { acceptUpgrade } from '../socket-pair.ts';
import { isStillGood } from '../tokens.ts';
import { takeTurn } from '../turns.ts';
import { type Gateway, type GatewayContext, requireUpgrade, route } from './route.ts';

/** Where programs that submit many jobs dial. */
export function jobSocketRoute(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/jobs/socket',
    tag: 'Jobs',
    summary: 'A WebSocket for programs that submit many jobs',
    description: 'The program sends ClientFrame and is sent ClientAnswer (docs/protocol.md).',
    scopes: ['submit'],
    answers: { 101: { description: 'The socket is open.' } },
    errors: [426],
    handler: (context) => {
      requireUpgrade(context, 'This address is for WebSocket connections of programs that submit jobs.');
      return serve(context);
    },
  });
}

function serve(context: GatewayContext): Response {
  const { env } = context;
  const queueId = queueIdOf(env, context.req.raw);
  const submitter = submissionOf(context.get('token'));
  const viewer = viewerOf(context.get('token'));
  // The news of a job holds its result.
  const reader = readerOf(context.get('token'), env);
  const listener = crypto.randomUUID();
  const { response, server } = acceptUpgrade();
  const socket = new JobSocket({
    bound: boundsOf(context.get('token'), modelAliases(env.MODEL_ALIASES)),
    submit: (jobs) =>
      submitAndListen(
        env,
        queueId,
        jobs.map((job) => ({ ...job, ...submitter })),
        listener,
      ),
    listen: (ids) => callQueue(env, queueId, (queue) => queue.listen(listener, ids, reader)),
    nextSettled: (waitMs) => callQueue(env, queueId, (queue) => queue.nextSettled(listener, waitMs)),
    leave: () => callQueue(env, queueId, (queue) => queue.leaveListener(listener)),
    cancel: (id) => {
      const cancel = () => callQueue(env, queueId, (queue) => queue.cancel(id, 'cancelled', viewer));
      return auditedOfJob(context, 'job.cancel', id, cancel, stateAfter);
    },
    hold: (bytes) => holdBytes(env, bytes),
    takeTurn,
    send: (text) => quietly(() => server.send(text)),
    close: (code, reason) => quietly(() => server.close(code, reason)),
    sleep: (ms) => new Promise((done) => setTimeout(done, ms)),
  });
  const token = context.get('token');
  let last = Promise.resolve();
  const take = async (data: string | ArrayBuffer) => {
    // What cannot be looked up now was good when the socket was opened.
    if (await isStillGood(token, env).catch(() => true)) socket.onMessage(data);
    else quietly(() => server.close(1008, 'the token of this connection is not good any more'));
  };
  // One after another: their order counts.
  server.addEventListener('message', ({ data }) => {
    last = last.then(() => take(data));
  });
  const closed = () => {
    quietly(() => server.close(1000, ''));
    socket.onClose();
  };
  server.addEventListener('close', closed);
  server.addEventListener('error', closed);
  return response();
}
