import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import type { Log } from '../../../durable/host.ts';
import type { Away } from '../../../gateway/env.ts';
import { awayError } from '../../../gateway/errors.ts';
import { doubling } from '../../../process/backoff.ts';
import { UserError } from '../../../process/exit-codes.ts';
import { reasonOf } from '../../../process/http.ts';
import { webSocketOptions } from '../../../process/web-socket-options.ts';
import { CLOSE } from '../../../protocol/index.ts';
import { NodeSocket } from '../objects/socket.ts';
import {
  AWAY_MS,
  BEAT_MS,
  decode,
  encode,
  errorFrom,
  type FromGateway,
  type FromOwner,
  type Kind,
  LINK_PATHS,
  LINK_VERSION,
  MOST_LINK_BYTES,
  type Push,
  type RelayFigures,
  type Welcome,
} from './messages.ts';
import { refusal } from './refusal.ts';
import { Silence } from './silence.ts';

/** The pause before all addresses are dialled again, ms; it doubles up to the second value. */
const REDIAL_MS = { first: 50, most: 1000 };
/** An owner that does not answer the handshake within this many ms is passed over. */
const HANDSHAKE_MS = 3000;

export interface LinkParts {
  /** The addresses of the owner, dialled in turn, without a trailing slash. */
  urls: readonly string[];
  /** A token of the scope gateway; null: the queue has no tokens. */
  token: string | null;
  /** The random id of this process. */
  instance: string;
  /** The address at which other gateway processes reach this one; null: the one that the owner sees, with the port. */
  address: string | null;
  port: number;
  /** The figures of this process's relays. */
  figures(): RelayFigures;
  /**
   * Called with each welcome, before calls go out.
   * @param url the owner's address
   * @throws UserError where this process may not serve that owner
   */
  welcomed(welcome: Welcome, url: string): void;
  pushed(push: Push): void;
  /** Called when a link breaks. */
  lost(): void;
  log: Log;
}

interface Pending {
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

/** The link broke during a call, which the owner may have carried out. */
export class LinkBroke extends Error {
  readonly retryable = true;
}

/**
 * The link of a gateway process to the owner of the objects. It is away until an owner has welcomed the process, and
 * again from the moment it breaks until the next welcome; meanwhile it dials. Calls that are pending when it breaks
 * reject with LinkBroke; new ones wait.
 */
export class Link {
  readonly #parts: LinkParts;
  /** The connection that was welcomed; null: the link is away. */
  #linked: { webSocket: WebSocket; socket: NodeSocket<never>; url: string } | null = null;
  /** The time since which the link is away, epoch ms. */
  #awaySince = Date.now();
  /** The same moment by the clock that nobody sets, ms of `performance.now()`. */
  #awayFrom = performance.now();
  #home: number | null = null;
  readonly #pending = new Map<number, Pending>();
  #calls = 0;
  /** The functions that are called with the next link. */
  #waiting = new Set<(url: string) => void>();
  /** The functions that are called when the link breaks. */
  readonly #whenLost = new Set<(nothing: null) => void>();
  readonly #ended = new AbortController();

  constructor(parts: LinkParts) {
    this.#parts = parts;
  }

  /** The number of this process; null: no owner has given it one yet. */
  get home(): number | null {
    return this.#home;
  }

  /** How long the owner has been out of reach; null: it is linked. */
  get away(): Away | null {
    return this.#linked ? null : this.#away;
  }

  get #away(): Away {
    return { since: this.#awaySince, refuses: this.#awayMs >= AWAY_MS };
  }

  get #awayMs(): number {
    return performance.now() - this.#awayFrom;
  }

  /**
   * Dials from now on. @returns a promise that resolves with the first welcome
   * @throws UserError when an owner refuses this process, for a reason that does not pass by itself, before any has
   *   welcomed it
   */
  async start(): Promise<void> {
    const first = Promise.withResolvers<void>();
    void this.#dialOn(first);
    await first.promise;
  }

  /** Asks an object of the owner. @throws the object's error; HttpError 503 when the link is away for long */
  async call(kind: Kind | 'owner', queue_id: string, name: string, asked: unknown[]): Promise<unknown> {
    while (!this.#linked) await this.whenLinked();
    const { socket } = this.#linked;
    const id = this.#calls++;
    const message = encode({ type: 'call', id, kind, queue_id, name, asked });
    // The owner would break the link for it, and the next one again.
    if (message.byteLength > MOST_LINK_BYTES) throw new Error(`${kind}.${name} is asked with too many bytes`);
    return await new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      socket.send(message);
    });
  }

  /**
   * Resolves to the owner's address once it is linked.
   * @throws HttpError 503 when that takes too long
   */
  async whenLinked(): Promise<string> {
    if (this.#linked) return this.#linked.url;
    const leftMs = AWAY_MS - this.#awayMs;
    if (leftMs <= 0) throw awayError(this.#away);
    return await new Promise((resolve, reject) => {
      const linked = (url: string) => {
        clearTimeout(timer);
        resolve(url);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(linked);
        reject(awayError(this.#away));
      }, leftMs);
      this.#waiting.add(linked);
    });
  }

  /**
   * Asks what must not wait for the next link, such as a health check: if the link breaks before the answer, it is asked
   * anew at once.
   * @param ask answers without a call while the link is away
   */
  async askNow<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      const { promise: lost, resolve } = Promise.withResolvers<null>();
      this.#whenLost.add(resolve);
      try {
        const answered = await Promise.race([ask().then((answer) => ({ answer })), lost]);
        if (answered) return answered.answer;
      } finally {
        this.#whenLost.delete(resolve);
      }
    }
  }

  /** The headers with which this process shows its token. */
  get authorization(): Record<string, string> {
    const { token } = this.#parts;
    return token === null ? {} : { authorization: `Bearer ${token}` };
  }

  get instance(): string {
    return this.#parts.instance;
  }

  close(): void {
    this.#ended.abort();
    this.#linked?.socket.closeNow(CLOSE.done, '');
  }

  async #dialOn(first: PromiseWithResolvers<void>): Promise<void> {
    const { urls, log } = this.#parts;
    const { signal } = this.#ended;
    /** The newest problem at each address: each is said once. */
    const told = new Map<string, string>();
    for (let failures = 0; !signal.aborted; ) {
      for (const url of urls) {
        if (signal.aborted) return;
        const problem = await this.#dial(url, () => {
          failures = 0;
          told.clear();
          first.resolve();
        });
        // A link that was welcomed has ended: the same address comes first again, since its owner may only restart.
        if (problem === null) break;
        if (problem instanceof UserError) first.reject(problem);
        if (problem.message !== told.get(url)) log('warn', problem.message, {});
        told.set(url, problem.message);
      }
      failures += 1;
      const pause = doubling(REDIAL_MS.first, REDIAL_MS.most, failures);
      await sleep(pause, null, { signal }).catch(() => {});
    }
  }

  /**
   * Dials one address. Resolves once the connection has ended.
   * @param welcomed called when the owner has welcomed this process
   * @returns why it was not linked; null: it was, and the link has ended
   */
  #dial(url: string, welcomed: () => void): Promise<Error | null> {
    const { instance, address, port } = this.#parts;
    const query = new URLSearchParams({ version: String(LINK_VERSION), instance, port: String(port) });
    if (this.#home !== null) query.set('home', String(this.#home));
    if (address !== null) query.set('address', address);
    const target = `${url.replace(/^http/, 'ws')}${LINK_PATHS.link}?${query}`;
    const webSocket = new WebSocket(target, {
      ...webSocketOptions(target),
      headers: this.authorization,
      maxPayload: MOST_LINK_BYTES,
      handshakeTimeout: HANDSHAKE_MS,
    });
    const stop = () => webSocket.terminate();
    this.#ended.signal.addEventListener('abort', stop);
    return new Promise((resolve) => {
      let problem: Error | null = null;
      webSocket.on('unexpected-response', async (_request, response: IncomingMessage) => {
        problem = await refusal(url, response);
        webSocket.terminate();
      });
      webSocket.on('error', (error) => {
        problem ??= new Error(`the queue at ${url} cannot be reached: ${reasonOf(error) || String(error)}`);
      });
      webSocket.on('open', () => {
        const opened = () => {
          this.#ended.signal.removeEventListener('abort', stop);
          welcomed();
        };
        const refuse = (error: Error) => {
          problem = error;
          webSocket.terminate();
        };
        this.#opened(webSocket, url, opened, refuse);
      });
      webSocket.on('close', (code, reason) => {
        this.#ended.signal.removeEventListener('abort', stop);
        const wasLinked = this.#linked?.webSocket === webSocket;
        if (wasLinked) this.#lost(reason.toString() || `code ${code}`);
        const broke = `the queue at ${url} broke the connection off (${reason.toString() || code})`;
        resolve(wasLinked ? null : (problem ?? new Error(broke)));
      });
    });
  }

  #opened(webSocket: WebSocket, url: string, welcomed: () => void, refuse: (error: Error) => void): void {
    const { log, figures } = this.#parts;
    const socket: NodeSocket<never> = new NodeSocket<never>(webSocket, {
      leave: (effect) => effect(),
      now: () => Date.now(),
      pings: undefined,
      message: (bytes) => {
        if (typeof bytes === 'string') return;
        const message = decode<FromOwner>(bytes);
        if (message.type !== 'welcome') return this.#heard(message);
        try {
          this.#parts.welcomed(message, url);
        } catch (error) {
          return refuse(error as Error);
        }
        this.#home = message.home;
        this.#linked = { webSocket, socket, url };
        log('info', `linked to the queue at ${url} as gateway process ${message.home}`, {});
        welcomed();
        const waiting = this.#waiting;
        this.#waiting = new Set();
        for (const linked of waiting) linked(url);
      },
      closed: () => clearInterval(timer),
      log,
    });
    const send = (message: FromGateway) => socket.send(encode(message));
    const silence = new Silence(() => socket.received);
    const timer = setInterval(() => {
      if (silence.beat()) return socket.drop();
      send({ type: 'beat', relays: figures() });
    }, BEAT_MS);
  }

  #heard(message: Exclude<FromOwner, Welcome>): void {
    if (message.type === 'beat') return;
    if (message.type !== 'answer' && message.type !== 'error') return this.#parts.pushed(message);
    const pending = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.type === 'answer') pending?.resolve(message.answer);
    else pending?.reject(errorFrom(message.error));
  }

  #lost(why: string): void {
    this.#linked = null;
    this.#awaySince = Date.now();
    this.#awayFrom = performance.now();
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    if (!this.#ended.signal.aborted) this.#parts.log('warn', `the link to the queue ended: ${why}`, {});
    const error = new LinkBroke('the link to the queue broke');
    for (const { reject } of pending) reject(error);
    for (const lost of this.#whenLost) lost(null);
    this.#parts.lost();
  }
}
