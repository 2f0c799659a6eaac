import { mkdtempSync, rmSync } from 'node:fs';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** As dockerode finds it. */
const DAEMON = process.env.DOCKER_HOST || 'unix:///var/run/docker.sock';

/** A way to the daemon that a test can close, or on which a call stays halfway. */
export class DaemonProxy {
  readonly #folder = mkdtempSync(join(tmpdir(), 'wv-proxy-'));
  readonly #socket = join(this.#folder, 'docker.sock');
  readonly #target: string;
  readonly #server: Server;
  /** As DOCKER_HOST. */
  readonly host = `unix://${this.#socket}`;
  /** Nothing is answered, and connections break. */
  isDown = false;
  /** Calls like this, `POST /containers/x/start`, do not reach the daemon. */
  holds: RegExp | null = null;
  /** Those that did not. */
  readonly held: string[] = [];

  /** @param target the daemon, as DOCKER_HOST; sockets alone */
  constructor(target = DAEMON) {
    this.#target = target.replace('unix://', '');
    this.#server = createServer((incoming, outgoing) => this.#pass(incoming, outgoing));
  }

  listen(): Promise<this> {
    return new Promise((done) => void this.#server.listen(this.#socket, () => done(this)));
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method, url: path, headers } = incoming;
    if (this.isDown) return void incoming.socket.destroy();
    const call = `${method} ${path}`;
    if (this.holds?.test(call)) return void this.held.push(call);
    const onward = httpRequest({ socketPath: this.#target, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => incoming.socket.destroy());
    // The daemon gives up what nobody waits for any more.
    outgoing.on('close', () => onward.destroy());
    incoming.pipe(onward);
  }
}
