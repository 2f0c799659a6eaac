import type { AliasTable } from '../../aliases/alias.ts';
import type { TokenEntry } from '../../settings/token-entry.ts';
import { auditedOfJob, stateAfter } from '../audit.ts';
import { aliasesFor } from '../auth/aliases.ts';
import { type Caller, denialOf, readerOf, viewerOf } from '../auth/authorize.ts';
import { permissionsOf } from '../auth/permissions.ts';
import { submissionOf } from '../auth/terms.ts';
import { entryNow, watchToken } from '../auth/tokens.ts';
import { holdBytes } from '../bodies/body.ts';
import { takeTurn } from '../bodies/receive.ts';
import type { HttpError } from '../errors.ts';
import { JobSocket } from '../jobs/job-socket.ts';
import { submitAndListen } from '../jobs/submit-jobs.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { type Gateway, type GatewayContext, requireUpgrade, route } from './route.ts';

const PATH = '/api/jobs/socket';
const SCOPES = ['submit'] as const;

/** Registers the socket that programs which submit many jobs dial. */
export function jobSocketRoute(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: PATH,
    tag: 'Jobs',
    summary: 'A WebSocket for programs that submit many jobs',
    description: 'The program sends ClientFrame and is sent ClientAnswer (docs/jobs.md).',
    scopes: SCOPES,
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
  const caller = context.get('token');
  /**
   * The entry of the socket's token when the newest frame came: what a token may do can change while the socket is
   * open.
   */
  let token: Caller | null = caller;
  let aliases: AliasTable = {};
  const listener = crypto.randomUUID();
  const { response, socket: server } = env.acceptUpgrade(context.req.raw);
  const socket = new JobSocket({
    permissions: () => permissionsOf(token, aliases),
    submit: (jobs) => {
      const submitter = submissionOf(token);
      return submitAndListen(
        env,
        queueId,
        jobs.map((job) => ({ ...job, ...submitter })),
        listener,
      );
    },
    // The reader decides here, since the news of a job holds its result.
    listen: (ids) => callQueue(env, queueId, (queue) => queue.listen(listener, ids, readerOf(token, env))),
    nextSettled: (waitMs) => callQueue(env, queueId, (queue) => queue.nextSettled(listener, waitMs)),
    leave: () => callQueue(env, queueId, (queue) => queue.leaveListener(listener)),
    cancel: (id) => {
      const cancel = () => callQueue(env, queueId, (queue) => queue.cancel(id, 'cancelled', viewerOf(token)));
      return auditedOfJob(context, 'job.cancel', id, cancel, stateAfter);
    },
    hold: (bytes) => holdBytes(env, bytes),
    takeTurn: (bytes) => takeTurn(bytes, env),
    send: (text) => server.send(text),
    close: (code, reason) => server.close(code, reason),
    sleep: (ms) => new Promise((done) => setTimeout(done, ms)),
  });
  /** Returns why the token may not use this socket now: its scopes and routes may have been changed. */
  const denied = (entry: TokenEntry) => denialOf(entry, SCOPES, PATH);
  let last = Promise.resolve();
  const take = async (data: string | ArrayBuffer) => {
    // While the entry cannot be read, the token counts as unchanged.
    const entry = await entryNow(caller, env).catch(() => token);
    if (entry === undefined || (entry && denied(entry)))
      return server.close(1008, 'the token of this connection is not good any more');
    token = entry && { ...entry, ...(caller?.signed_in && { signed_in: caller.signed_in }) };
    // While the queue does not answer, its aliases count as unchanged.
    aliases = await aliasesFor(env, queueId, token).catch(() => aliases);
    socket.onMessage(data);
  };
  const over = ({ message }: HttpError) => {
    server.close(1008, message);
    socket.onClose();
  };
  const stopWatching = watchToken(caller, env, over, denied);
  const closed = () => {
    stopWatching();
    server.close(1000, '');
    socket.onClose();
  };
  server.listen({
    // Frames are taken one after another: their order counts.
    message: (data) => {
      last = last.then(() => take(data));
    },
    closed,
  });
  return response;
}
