import { DurableObject } from 'cloudflare:workers';

/**
 * The leanest program of the road's shape, without any rules: one `fetch` to one object, the job as a message on a
 * hibernating socket, the answer's chunks and a settlement back on it.
 */
export class Bare extends DurableObject {
  #requests = 0;
  #answers = new Map();

  async fetch(request) {
    if (request.headers.get('upgrade') === 'websocket') {
      const [client, server] = Object.values(new WebSocketPair());
      this.ctx.acceptWebSocket(server);
      return new Response(null, { status: 101, webSocket: client });
    }
    const body = await request.text();
    const id = ++this.#requests;
    const stream = new ReadableStream({ start: (controller) => void this.#answers.set(id, controller) });
    this.ctx.getWebSockets()[0].send(JSON.stringify({ id, body }));
    return new Response(stream, { headers: { 'content-type': 'text/event-stream' } });
  }

  /** Four bytes of the request's number and a chunk of its answer; or, as a text, the number of one that has ended. */
  webSocketMessage(_socket, message) {
    if (typeof message === 'string') {
      const { id } = JSON.parse(message);
      this.#answers.get(id).close();
      this.#answers.delete(id);
    } else {
      const id = new DataView(message).getUint32(0);
      this.#answers.get(id).enqueue(new Uint8Array(message, 4));
    }
  }
}

export default {
  fetch(request, env) {
    return env.BARE.get(env.BARE.idFromName('bare')).fetch(request);
  },
};
