import { quietly } from '../durable/quietly.ts';
import type { OpenedWith, ViewerSocket, Watching } from './live-viewers.ts';
import { VIEWER_HEADERS } from './rpc.ts';

/** A viewer's WebSocket of the object, as the rules use it. */
export function viewerSocket(ctx: DurableObjectState, socket: WebSocket): ViewerSocket {
  return {
    load: () => socket.deserializeAttachment() as Watching,
    save: (watching) => socket.serializeAttachment(watching),
    pingedAt: () => ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0,
    send: (text) => quietly(() => socket.send(text)),
    close: (code, reason) => quietly(() => socket.close(code, reason)),
  };
}

/** Reads what the viewer showed from headers that only the gateway sets. */
export function openedWith(headers: Headers): OpenedWith {
  const [signIn, sha256, expires] = (['signIn', 'sha256', 'expires'] as const).map((name) =>
    headers.get(VIEWER_HEADERS[name]),
  );
  return {
    ...(signIn && { signIn }),
    ...(sha256 && { token: { sha256, ...(expires && { expires_at: Number(expires) }) } }),
  };
}
