import { denialOf } from '../../../gateway/auth/authorize.ts';
import { watchToken } from '../../../gateway/auth/tokens.ts';
import { holdBytes } from '../../../gateway/bodies/body.ts';
import type { HttpError } from '../../../gateway/errors.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import type { GatewayContext } from '../../../gateway/routes/route.ts';
import { idOf } from '../../../protocol/ids.ts';
import { PATH } from './create.ts';
import { ResponsesSession } from './session.ts';

/** The scopes of tokens that may open the socket. */
export const SCOPES = ['submit'] as const;

/** Headers of an upgrade that the requests of its frames do not have. */
const OF_THE_UPGRADE = /^(?:upgrade|connection|sec-websocket-.*|content-.*|transfer-encoding|x-request-id)$/;

/**
 * Opens a WebSocket on which responses are made one after another. Each frame is answered as a request of its own with
 * the headers of the upgrade, so that tokens, limits and usage hold for it as for any other.
 * @param answer answers a request as the gateway does
 * @throws HttpError 404 for a queue id that there is not
 */
export function openResponsesSocket(
  context: GatewayContext,
  answer: (request: Request) => Response | Promise<Response>,
): Response {
  const { env, req } = context;
  const queueId = queueIdOf(env, req.raw);
  const token = context.get('token');
  const headers = new Headers([...req.raw.headers].filter(([name]) => !OF_THE_UPGRADE.test(name)));
  headers.set('content-type', 'application/json');
  const gone = new AbortController();
  const { response, socket } = env.acceptUpgrade(req.raw);
  const session = new ResponsesSession({
    create: async (body) =>
      await answer(new Request(req.raw.url, { method: 'POST', headers, body, signal: gone.signal })),
    hold: (bytes) => holdBytes(env, bytes),
    send: (text) => socket.send(text),
    now: () => Date.now(),
    newId: () => idOf('response', queueId),
  });
  const close = (code: number, reason: string) => {
    stopWatching();
    gone.abort();
    session.onClose();
    socket.close(code, reason);
  };
  const stopWatching = watchToken(
    token,
    env,
    ({ message }: HttpError) => close(1008, message),
    (entry) => denialOf(entry, SCOPES, PATH),
  );
  socket.listen({ message: (data) => session.onMessage(data), closed: () => close(1000, '') });
  return response;
}
