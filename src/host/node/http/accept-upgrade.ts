import type { WebSocket } from 'ws';
import type { ServerSocket } from '../../../gateway/env.ts';
import { UpgradeResponse } from './upgrade.ts';

/** Opens the gateway's end of a WebSocket. Messages that are sent before it is open leave once it is. */
export function acceptUpgrade(): { socket: ServerSocket; response: Response } {
  let open: WebSocket | null = null;
  let waiting: ((socket: WebSocket) => void)[] = [];
  let heard: Parameters<ServerSocket['listen']>[0] | null = null;
  const whenOpen = (effect: (socket: WebSocket) => void) => {
    if (open) effect(open);
    else waiting.push(effect);
  };
  const take = (socket: WebSocket) => {
    open = socket;
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      heard?.message(isBinary ? new Uint8Array(data).buffer : data.toString());
    });
    socket.on('close', () => heard?.closed());
    // `ws` emits `close` after an error.
    socket.on('error', () => {});
    for (const effect of waiting) effect(socket);
    waiting = [];
  };
  const socket: ServerSocket = {
    listen: (given) => {
      heard = given;
    },
    send: (text) => whenOpen((socket) => socket.readyState === socket.OPEN && socket.send(text)),
    close: (code, reason) => whenOpen((socket) => socket.close(code, shortened(reason))),
  };
  return { socket, response: new UpgradeResponse(take, () => heard?.closed()) };
}

/** Shortens a reason to the 123 bytes that a close frame holds. */
function shortened(reason: string): string {
  let text = reason;
  while (Buffer.byteLength(text) > 123) text = text.slice(0, -1);
  return text;
}
