/** The gateway's end of a WebSocket, as the runtime of workers has it. */
interface ServerSocket {
  accept(): void;
  send(text: string): void;
  close(code: number, reason: string): void;
  addEventListener(type: 'message', listener: (event: { data: string | ArrayBuffer }) => void): void;
  addEventListener(type: 'close' | 'error', listener: () => void): void;
}

/** Written out, so that the routes can be checked, and tested, in plain Node too. */
type Runtime = { WebSocketPair: new () => { 0: WebSocket; 1: ServerSocket } };

/** The answer to an upgrade, and the socket that it opens. */
export function acceptUpgrade(): { response: () => Response; server: ServerSocket } {
  const { WebSocketPair } = globalThis as unknown as Runtime;
  const { 0: client, 1: server } = new WebSocketPair();
  server.accept();
  const init = { status: 101, webSocket: client };
  return { response: () => new Response(null, init as ResponseInit), server };
}
