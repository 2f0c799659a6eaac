import { timingSafeEqual } from 'node:crypto';
import type { WebSocket } from 'ws';
import type { Log } from '../../../durable/host.ts';
import { CLOSE, PING_TEXT, PONG_TEXT, QUEUE_HOME } from '../../../protocol/index.ts';
import { UpgradeResponse } from '../http/upgrade.ts';
import type { Peer } from '../link/messages.ts';
import { NodeSocket } from '../objects/socket.ts';
import type { HeldRelays } from './held-relays.ts';
import { LINK_PING_MS, LINK_SILENT_MS, PeerDial, type PeerProcess } from './peer-dial.ts';
import type { LinkEvents, Port } from './port.ts';
import { RemotePort } from './remote-port.ts';

/** The path at which a process is dialled by its peers. */
export const PEER_PATH = '/peer';

/**
 * The links of this process with others. Each process dials all others as a home: it asks them for the records of its
 * streams. So a process that nobody can dial any more still gets the rest of its answers.
 */
export class Peers {
  readonly #home: number;
  readonly #port: Port;
  readonly #held: HeldRelays;
  readonly #log: Log;
  readonly #dials = new Set<PeerDial>();
  readonly #linked = new Set<NodeSocket<never>>();
  #instance = '';
  #secret = '';
  #isLeaving = false;

  constructor(home: number, port: Port, held: HeldRelays, log: Log) {
    this.#home = home;
    this.#port = port;
    this.#held = held;
    this.#log = log;
  }

  /** The homes whose sockets this process has. */
  get links(): number {
    return this.#linked.size;
  }

  /** Sets what proves that a process is one of these. @param instance the name of this process */
  join(instance: string, secret: string): void {
    this.#instance = instance;
    this.#secret = secret;
  }

  /**
   * Sets the other processes. One that is left out is not dialled again, but a link with it lasts: a queue that has just
   * started does not know all processes yet.
   * @param gateways may have this process among them
   * @param ownerUrl the address of the queue's own process; null: that is this one
   */
  set(gateways: readonly Peer[], ownerUrl: string | null): void {
    if (this.#isLeaving) return;
    const wanted: PeerProcess[] = gateways
      .filter(({ home }) => home !== this.#home)
      .map(({ home, instance, address }) => ({ home, instance, url: `http://${address}` }));
    if (ownerUrl !== null) wanted.push({ home: QUEUE_HOME, instance: '', url: ownerUrl });
    for (const dial of this.#dials) dial.isWanted = wanted.some((peer) => isSame(peer, dial.peer));
    for (const peer of wanted) {
      if (![...this.#dials].some((dial) => isSame(peer, dial.peer))) this.#dial(peer);
    }
  }

  /** Answers the dial of another process. */
  accept(request: Request): Response {
    const { searchParams } = new URL(request.url);
    const home = Number(searchParams.get('home') ?? Number.NaN);
    const instance = searchParams.get('instance') ?? '';
    if (!this.#isSecret(request.headers.get('authorization'))) return new Response(null, { status: 401 });
    if (!Number.isInteger(home) || home < 0 || home > 255 || home === this.#home || instance === '')
      return new Response(null, { status: 400 });
    return new UpgradeResponse((webSocket) => this.#accepted(home, instance, webSocket));
  }

  /** Prepares for the end of the process: relays that close their sockets leave workers of other ports alone. */
  leave(): void {
    this.#isLeaving = true;
    for (const dial of this.#dials) dial.leave();
  }

  /** Closes all links, once what was sent has left. */
  close(): void {
    this.#isLeaving = true;
    for (const dial of this.#dials) dial.stop();
    for (const socket of this.#linked) socket.close(CLOSE.done, '');
  }

  #dial(peer: PeerProcess): void {
    const query = new URLSearchParams({ home: String(this.#home), instance: this.#instance });
    const { home, url } = peer;
    const dial = new PeerDial(peer, {
      url: `${url.replace(/^http/, 'ws')}${PEER_PATH}?${query}`,
      secret: () => this.#secret,
      open: (socket) => new RemotePort(socket, this.#held),
      ended: () => this.#dials.delete(dial),
      log: (level, message, fields) => this.#log(level, message, { home, url, ...fields }),
    });
    this.#dials.add(dial);
  }

  #accepted(home: number, instance: string, webSocket: WebSocket): void {
    const log = this.#log;
    const openedAt = Date.now();
    let events: LinkEvents;
    const socket = new NodeSocket<never>(webSocket, {
      leave: (effect) => effect(),
      now: () => Date.now(),
      pings: { ping: PING_TEXT, pong: PONG_TEXT },
      message: (message) => {
        if (!socket.isClosing) guarded(() => events.message(message));
      },
      closed: () => {
        clearInterval(watch);
        this.#linked.delete(socket);
        guarded(() => events.closed());
      },
      log,
    });
    const guarded = (work: () => void) => {
      try {
        work();
      } catch (error) {
        log('error', 'the link of another process failed', { home, error: String(error) });
        socket.close(CLOSE_INTERNAL, 'the link failed');
      }
    };
    const watch = setInterval(() => {
      if (Date.now() - Math.max(openedAt, socket.pingedAt()) > LINK_SILENT_MS) socket.drop();
    }, LINK_PING_MS);
    this.#linked.add(socket);
    events = this.#port.linked(home, instance, socket);
  }

  #isSecret(authorization: string | null): boolean {
    const [given, wanted] = [Buffer.from(authorization ?? ''), Buffer.from(`Bearer ${this.#secret}`)];
    return this.#secret !== '' && given.length === wanted.length && timingSafeEqual(given, wanted);
  }
}

/** The closing code of a link whose other end sent what cannot be read. */
const CLOSE_INTERNAL = 1011;

function isSame(one: PeerProcess, other: PeerProcess): boolean {
  return one.home === other.home && one.url === other.url && one.instance === other.instance;
}
