import { quietly } from '../durable/quietly.ts';
import type { ViewerSocket, Watching } from './live-viewers.ts';

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
