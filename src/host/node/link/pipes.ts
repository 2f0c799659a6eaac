import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import type { OpenedWith } from '../../../fleet/live-viewers.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { reasonOf } from '../../../process/http.ts';
import { webSocketOptions } from '../../../process/web-socket-options.ts';
import { bounds, CLOSE } from '../../../protocol/index.ts';
import type { WorkerDial } from '../../../queue/rpc.ts';
import { UpgradeResponse } from '../http/upgrade.ts';
import { errorForCallers, explanationOf } from './explanation.ts';
import type { Link } from './link.ts';
import { LINK_PATHS, OPENED_HEADER } from './messages.ts';

/** A side for which this many bytes wait is not read for until they are gone. */
const MUCH_BYTES = 1024 * 1024;
const HANDSHAKE_MS = 10_000;

/** The codes that a close frame may not name (RFC 6455 §7.4.1): none was given, or the connection broke. */
const UNNAMED = [1005, 1006, 1015];

/** Passes sockets of workers and viewers on to their objects at the owner, each over a connection of its own. */
export class Pipes {
  readonly #link: Link;
  /** Both ends of all open pipes. */
  readonly #open = new Set<{ peer: WebSocket; owner: WebSocket }>();

  constructor(link: Link) {
    this.#link = link;
  }

  control(queueId: string): (dial: WorkerDial, upgrade: Request) => Promise<Response> {
    return (dial, upgrade) => this.#connect(LINK_PATHS.control, queueId, dial, upgrade);
  }

  viewer(queueId: string): (opened: OpenedWith, upgrade: Request) => Promise<Response> {
    return (opened, upgrade) => this.#connect(LINK_PATHS.viewer, queueId, opened, upgrade);
  }

  /** Ends all pipes, so that their peers dial again. */
  close(): void {
    for (const { peer, owner } of this.#open) {
      peer.close(CLOSE.restarting, 'queue restarting');
      owner.terminate();
    }
    this.#open.clear();
  }

  async #connect(path: string, queueId: string, opened: unknown, upgrade: Request): Promise<Response> {
    const url = await this.#link.whenLinked();
    const query = new URLSearchParams({ queue: queueId, instance: this.#link.instance });
    const target = `${url.replace(/^http/, 'ws')}${path}?${query}`;
    const owner = new WebSocket(target, {
      ...webSocketOptions(target),
      headers: {
        ...this.#link.authorization,
        [OPENED_HEADER]: Buffer.from(JSON.stringify(opened)).toString('base64url'),
      },
      maxPayload: bounds.BODY_FRAME_BYTES,
      handshakeTimeout: HANDSHAKE_MS,
    });
    const gone = () => owner.terminate();
    upgrade.signal.addEventListener('abort', gone);
    const refused = await new Promise<Response | null>((resolve, reject) => {
      owner.once('open', () => {
        // What the object sends at once waits until the peer's end is open.
        owner.pause();
        resolve(null);
      });
      owner.once('unexpected-response', async (_request, response: IncomingMessage) => {
        const { statusCode = 503 } = response;
        const explanation = await explanationOf(response);
        // The object's own refusal is a text.
        if (explanation.code === null) resolve(new Response(explanation.message, { status: statusCode }));
        else reject(errorForCallers(statusCode, explanation, response.headers['retry-after']));
        owner.terminate();
      });
      // `ws` throws errors that nobody listens to.
      owner.on('error', (error) => {
        const message = `The queue cannot be reached (${reasonOf(error) || error.message}); try again in a moment.`;
        reject(new HttpError(503, message, 'queue_restarting', { 'retry-after': '1' }));
      });
    });
    upgrade.signal.removeEventListener('abort', gone);
    return refused ?? new UpgradeResponse((peer) => this.#pipe(peer, owner), gone);
  }

  #pipe(peer: WebSocket, owner: WebSocket): void {
    const pipe = { peer, owner };
    this.#open.add(pipe);
    peer.on('error', () => {});
    passOn(peer, owner);
    passOn(owner, peer);
    peer.on('close', (code, reason) => {
      this.#open.delete(pipe);
      end(owner, code, reason);
    });
    owner.on('close', (code, reason) => {
      this.#open.delete(pipe);
      // The peer of an object whose process is gone dials again.
      if (UNNAMED.includes(code)) peer.close(CLOSE.restarting, 'queue restarting');
      else end(peer, code, reason);
    });
    owner.resume();
  }
}

function passOn(from: WebSocket, to: WebSocket): void {
  from.on('message', (data: Buffer, binary: boolean) => {
    if (to.readyState !== to.OPEN) return;
    to.send(data, { binary }, () => {
      if (from.isPaused && to.bufferedAmount < MUCH_BYTES) from.resume();
    });
    if (to.bufferedAmount >= MUCH_BYTES) from.pause();
  });
}

function end(socket: WebSocket, code: number, reason: Buffer): void {
  if (code === 1005) socket.close();
  else if (UNNAMED.includes(code)) socket.terminate();
  else socket.close(code, reason);
}
