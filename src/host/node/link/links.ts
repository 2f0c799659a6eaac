import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Objects } from '../../../asking/objects.ts';
import type { Log } from '../../../durable/host.ts';
import { HttpError, retryAfter } from '../../../gateway/errors.ts';
import { dialledHere } from '../../../gateway/objects/sockets.ts';
import { type BrokenReason, CLOSE } from '../../../protocol/index.ts';
import type { RelayMetrics, WaitingRequest } from '../../../queue/rpc.ts';
import { UpgradeResponse } from '../http/upgrade.ts';
import type { RelaysElsewhere } from '../objects/objects.ts';
import { cutOff, NodeSocket } from '../objects/socket.ts';
import { Homes } from './homes.ts';
import {
  AWAY_MS,
  BEAT_MS,
  type Call,
  decode,
  encode,
  type FromGateway,
  type FromOwner,
  fieldsOfError,
  KINDS,
  MOST_LINK_BYTES,
  type OwnerCalls,
  type Peer,
  type Push,
  SILENT_BEATS,
  type Welcome,
} from './messages.ts';
import { Silence } from './silence.ts';
import { WaitingRequests } from './waiting-requests.ts';

interface LinksParts {
  /** The objects that gateway processes ask. */
  objects(): Objects;
  /** Returns the settings that each gateway process is told. */
  welcome(): Omit<Welcome, 'type' | 'home'>;
  /** Why the objects must not be asked now, as another process may have become the owner; null: they may. */
  problem(): Error | null;
  /** Takes the gateway processes that are linked now. */
  peers(peers: readonly Peer[]): void;
  log: Log;
}

/** A gateway process that dials. */
export interface Dialling {
  instance: string;
  /** The number that it had; null: none. */
  home: number | null;
  /** The address at which others reach it; null: the one that it dials from, with its port. */
  address: string | null;
  port: number;
}

/** A link that holds. */
interface Open {
  home: number;
  socket: NodeSocket<never>;
  silence: Silence;
  /** The sockets that it has piped to objects. */
  piped: Set<WebSocket>;
  timer: NodeJS.Timeout;
}

/** The code of a link whose token is not good any more. */
const TOKEN_ENDED = 1008;
/** The code of a link for which there is no number. */
const TRY_LATER = 1013;

/**
 * The links of all gateway processes, at the owner of the objects. Each process asks the objects over its link, and is
 * told what concerns its answers and its settings.
 */
export class Links implements RelaysElsewhere {
  readonly #parts: LinksParts;
  readonly #homes = new Homes();
  readonly #open = new Map<number, Open>();
  readonly #waiting: WaitingRequests<Open>;
  readonly #own: OwnerCalls = { dialled: dialledHere };
  #hasEnded = false;

  constructor(parts: LinksParts) {
    this.#parts = parts;
    this.#waiting = new WaitingRequests(parts.objects, parts.log);
  }

  /**
   * Opens the link of a gateway process.
   * @param watch watches the token with which it dials: calls its argument once the token is not good any more
   * @returns the response to its request
   * @throws HttpError 503 while the objects must not be asked, so that it dials the next address
   */
  open(dialling: Dialling, watch: (over: (error: Error) => void) => () => void): Response {
    if (this.#parts.problem() !== null) {
      const message =
        'This queue cannot reach its journal, so that another process may have become the owner meanwhile.';
      throw new HttpError(503, message, 'journal_unreachable', retryAfter(1));
    }
    const take = (webSocket: WebSocket) => this.#take(webSocket, dialling, watch);
    return new UpgradeResponse(take, () => {}, MOST_LINK_BYTES);
  }

  /** Ties a socket, which a gateway process pipes to an object, to the link of the process. */
  pipe(instance: string, response: Response): Response {
    if (!(response instanceof UpgradeResponse)) return response;
    return new UpgradeResponse((webSocket) => {
      const piped = this.#linkOf(instance)?.piped;
      piped?.add(webSocket);
      webSocket.once('close', () => piped?.delete(webSocket));
      response.take(webSocket);
    }, response.gone);
  }

  /** Tells the gateway processes to take these tokens. @param text in the form of the binding TOKENS */
  tellTokens(text: string): void {
    this.#tellAll({ type: 'tokens', text });
  }

  breakStream(
    queue_id: string,
    worker_id: string,
    stream: number,
    reason: BrokenReason,
    where?: 'any home',
  ): void {
    this.#tellAll({ type: 'break_stream', queue_id, worker_id, stream, reason, where });
  }

  /** Has a worker dial its answer socket again, whichever gateway process has it. */
  closeSockets(queue_id: string, worker_id: string): void {
    this.#tellAll({ type: 'close_sockets', queue_id, worker_id });
  }

  /** Sums the figures of the relays in gateway processes. */
  figures(queueId: string): RelayMetrics {
    return this.#homes.figures(queueId);
  }

  /** Ends all links: the gateway processes dial the next owner, and ask it what was not answered. */
  close(): void {
    this.#hasEnded = true;
    this.pause('the queue restarts');
  }

  /**
   * Ends the links that there are, so that the gateway processes look for the owner at all of their addresses. The
   * objects close the sockets that are piped to them.
   */
  pause(why: string): void {
    for (const open of [...this.#open.values()]) {
      open.socket.closeNow(CLOSE.restarting, why);
      this.#leave(open);
    }
    this.#tellPeers();
  }

  #take(webSocket: WebSocket, dialling: Dialling, watch: (over: (error: Error) => void) => () => void): void {
    if (this.#hasEnded) return webSocket.close(CLOSE.restarting, 'the queue restarts');
    const { log } = this.#parts;
    const { instance } = dialling;
    const before = this.#linkOf(instance);
    if (before) this.#lost(before, 'it has dialled again');
    const address = dialling.address ?? `${remoteHost(webSocket)}:${dialling.port}`;
    let home: number;
    try {
      home = this.#homes.join(instance, address, dialling.home);
    } catch (error) {
      const why = (error as Error).message;
      log('warn', 'a gateway process is refused', { address, why });
      webSocket.on('error', () => {});
      return webSocket.close(TRY_LATER, why);
    }
    const stopWatching = watch((error) => {
      log('warn', 'a gateway process is cut off', { gateway: home, why: error.message });
      socket.closeNow(TOKEN_ENDED, error.message);
      this.#lost(open, error.message);
    });
    const socket: NodeSocket<never> = new NodeSocket<never>(webSocket, {
      leave: (effect) => effect(),
      now: () => Date.now(),
      pings: undefined,
      message: (message) => {
        if (typeof message !== 'string') this.#heard(open, decode<FromGateway>(message));
      },
      closed: () => {
        stopWatching();
        this.#lost(open, 'its connection ended');
      },
      log,
    });
    const timer = setInterval(() => this.#beat(open), BEAT_MS);
    const silence = new Silence(() => socket.received);
    const open: Open = { home, socket, silence, piped: new Set(), timer };
    this.#open.set(home, open);
    log('info', `gateway process ${home} is linked`, { gateway: home, address, instance });
    this.#send(open, { type: 'welcome', home, ...this.#parts.welcome() });
    this.#tellPeers();
  }

  #linkOf(instance: string): Open | undefined {
    const home = this.#homes.peers().find((peer) => peer.instance === instance)?.home;
    return home === undefined ? undefined : this.#open.get(home);
  }

  #heard(from: Open, message: FromGateway): void {
    if (message.type === 'beat') this.#homes.tell(from.home, message.relays);
    else void this.#answer(from, message);
  }

  async #answer(from: Open, call: Call): Promise<void> {
    const { id } = call;
    try {
      this.#send(from, { type: 'answer', id, answer: await this.#ask(from, call) });
    } catch (error) {
      this.#send(from, { type: 'error', id, error: fieldsOfError(error) });
    }
  }

  async #ask(from: Open, { kind, queue_id, name, asked }: Call): Promise<unknown> {
    if (kind === 'owner') return this.#own[name as keyof OwnerCalls]?.();
    if (!KINDS.includes(kind)) throw new Error(`a gateway process asks for an unknown object, ${kind}`);
    const stub = this.#parts.objects()[kind](queue_id) as unknown as Record<string, unknown>;
    const method = name in Object.prototype ? undefined : stub[name];
    if (typeof method !== 'function') {
      throw new Error(`a gateway process of another version calls ${kind}.${name}, which is not known here`);
    }
    if (kind === 'queue' && name === 'request') {
      const { job_id } = asked[0] as WaitingRequest;
      const waiting = { queueId: queue_id, jobId: job_id, asker: from };
      return await this.#waiting.answer(waiting, method.apply(stub, asked), (asker) => this.#holds(asker));
    }
    return await method.apply(stub, asked);
  }

  #holds(open: Open): boolean {
    return this.#open.get(open.home) === open;
  }

  #beat(open: Open): void {
    // Timers of a process that stood still do not come more than once: it hears what has arrived before the next one.
    if (open.silence.beat()) {
      // Workers behind it may go on with their answers, which do not pass here.
      return this.#lost(open, `nothing was heard of it for ${(SILENT_BEATS * BEAT_MS) / 1000} s`, cutOff);
    }
    this.#send(open, { type: 'beat' });
  }

  /** Takes a link from those that hold. */
  #leave(open: Open): void {
    clearInterval(open.timer);
    this.#open.delete(open.home);
    this.#homes.leave(open.home);
    // After this time the gateway process is gone, or has told its callers that the queue is away.
    setTimeout(() => this.#hasEnded || this.#waiting.cancelOf(open), AWAY_MS).unref();
  }

  /** Gives a link up. @param endPiped ends each socket that the gateway process has piped to an object */
  #lost(open: Open, why: string, endPiped = (webSocket: WebSocket) => webSocket.terminate()): void {
    if (!this.#holds(open)) return;
    this.#leave(open);
    open.socket.drop();
    for (const webSocket of open.piped) endPiped(webSocket);
    this.#parts.log('warn', `the link of gateway process ${open.home} ended: ${why}`, { gateway: open.home });
    this.#tellPeers();
  }

  #tellPeers(): void {
    const peers = this.#homes.peers();
    this.#parts.peers(peers);
    this.#tellAll({ type: 'peers', peers });
  }

  #tellAll(push: Push): void {
    // Encoding it anew for each of many processes would be most of the work.
    const message = encode(push);
    for (const { socket } of this.#open.values()) socket.send(message);
  }

  #send(to: Open, message: FromOwner): void {
    to.socket.send(encode(message));
  }
}

/** Returns the host of a socket's peer as it stands in addresses. */
function remoteHost(webSocket: WebSocket): string {
  const { _socket: socket } = webSocket as unknown as { _socket: Duplex & { remoteAddress?: string } };
  const address = (socket.remoteAddress ?? '').replace(/^::ffff:/, '');
  return address.includes(':') ? `[${address}]` : address;
}
