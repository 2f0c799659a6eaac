import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';

type Frame = { type: string; [field: string]: unknown };

/**
 * A queue that speaks only the base protocol, as strictly as the deployed one: it never answers `register`,
 * answers frames it does not know with `error`, and closes the socket on a frame over 16 MiB.
 */
export class BaseQueue {
  readonly frames: Frame[] = [];
  readonly heartbeats: Frame[] = [];
  readonly authorizations: (string | undefined)[] = [];
  connections = 0;
  readonly #http: Server;
  #socket: WebSocket | null = null;

  constructor() {
    this.#http = createServer((request, response) => {
      let body = '';
      request.on('data', (data) => {
        body += data;
      });
      request.on('end', () => {
        if (request.url === '/api/heartbeats') this.heartbeats.push(JSON.parse(body));
        response.end('{}');
      });
    });
    const sockets = new WebSocketServer({ server: this.#http, path: '/ws', maxPayload: 16 * 1024 * 1024 });
    sockets.on('connection', (socket, request) => {
      this.connections += 1;
      this.authorizations.push(request.headers.authorization);
      this.#socket = socket;
      socket.on('message', (data) => this.#onFrame(socket, String(data)));
      socket.on('error', () => {});
    });
  }

  /** @returns its http address */
  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#http.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  push(job: Record<string, unknown>): void {
    this.#socket?.send(JSON.stringify({ type: 'job', config_id: 'cfg', ...job }));
  }

  send(frame: Frame): void {
    this.#socket?.send(JSON.stringify(frame));
  }

  /** Breaks the connection without a close frame. */
  cut(): void {
    this.#socket?.terminate();
  }

  of(type: string): Frame[] {
    return this.frames.filter((frame) => frame.type === type);
  }

  close(): void {
    this.#socket?.terminate();
    this.#http.close();
    this.#http.closeAllConnections();
  }

  #onFrame(socket: WebSocket, text: string): void {
    const frame = JSON.parse(text) as Frame;
    this.frames.push(frame);
    const known = [
      'register',
      'job_result',
      'job_result_ref',
      'job_error',
      'job_progress',
      'drain',
      'pause',
      'resume',
    ];
    if (!known.includes(frame.type)) {
      socket.send(JSON.stringify({ type: 'error', message: `unknown type ${frame.type}` }));
    }
  }
}
