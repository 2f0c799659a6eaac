import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type WebSocket, WebSocketServer } from 'ws';

/**
 * The leanest program of the road's shape, without any rules: the job as a message on a socket, the answer's chunks and
 * a settlement back on it. It prints its port.
 */
const answers = new Map<number, ServerResponse>();
let requests = 0;
let worker: WebSocket;

const server = createServer(async (request, response) => {
  const body = await text(request);
  const id = ++requests;
  answers.set(id, response.writeHead(200, { 'content-type': 'text/event-stream' }));
  worker.send(JSON.stringify({ id, body }));
});
new WebSocketServer({ server, perMessageDeflate: false }).on('connection', (socket) => {
  worker = socket.on('message', heard);
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));

/** Four bytes of the request's number and a chunk of its answer; or, as a text, the number of one that has ended. */
function heard(message: Buffer, isBinary: boolean): void {
  if (isBinary) {
    answers.get(message.readUInt32BE(0))!.write(message.subarray(4));
  } else {
    const { id } = JSON.parse(message.toString()) as { id: number };
    answers.get(id)!.end();
    answers.delete(id);
  }
}
