import { doubling } from '../../process/backoff.ts';
import { bounds, CLOSE, PING_TEXT, PONG_TEXT, type QueueFrame } from '../../protocol/index.ts';
import type { Clock, Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';
import type { DialTarget, Socket, SocketClose, SocketEvents } from './socket.ts';

/** A dial must open or fail within this time, ms. */
const OPEN_WITHIN_MS = 10_000;
/** A connection that has lasted this long, ms, counts as good by that alone. */
const STEADY_MS = 10_000;
/** The socket waits at most this long for a peer to answer its close, ms. */
const CLOSED_WITHIN_MS = 1000;
/** The interval of WebSocket-level pings in the base protocol, ms. */
const BASE_PING_MS = 30_000;
const BASE_PONG_WITHIN_MS = 10_000;
/** The peer counts as dead after this many unanswered pings. */
const MISSED_PINGS = 2;

export interface ReconnectingSocketEvents {
  opened(): void;
  text(text: string): void;
  binary(data: Uint8Array): void;
  frame?(frame: QueueFrame): void;
  /** Called before the next dial is planned. Returning `stop` cancels the dial. */
  closed(close: SocketClose): 'redial' | 'stop';
}

/**
 * The state of a socket:
 *
 * - `idle`     → `dialling` (open)
 * - `dialling` → `open`, `waiting` (failed), `closed`
 * - `open`     → `waiting` (lost), `closed`
 * - `waiting`  → `dialling` (the wait is over), `closed`
 * - `closed`   is final.
 */
export type ReconnectingSocketState = 'idle' | 'dialling' | 'open' | 'waiting' | 'closed';

/**
 * A socket that stays connected: it dials, notices when the peer is silent, and dials again. The control socket and the
 * answer socket are of this kind.
 */
export class ReconnectingSocket {
  readonly #ports: Pick<Ports, 'clock' | 'dial' | 'random' | 'log'>;
  readonly #name: string;
  readonly #events: ReconnectingSocketEvents;
  #target: DialTarget | null = null;
  #state: ReconnectingSocketState = 'idle';
  #socket: Socket | null = null;
  /** The number of the connection whose events count; events of earlier ones are ignored. */
  #connection = 0;
  #liveness: Liveness | null = null;
  #timer: Timer;
  /** Called once the socket that is being closed has closed. */
  #farewell: (() => void) | null = null;
  #openedAtMs = 0;
  #failures = 0;

  constructor(
    ports: Pick<Ports, 'clock' | 'dial' | 'random' | 'log'>,
    name: string,
    events: ReconnectingSocketEvents,
  ) {
    this.#ports = ports;
    this.#name = name;
    this.#events = events;
  }

  get state(): ReconnectingSocketState {
    return this.#state;
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  /** Starts to dial, once. */
  open(target: DialTarget): void {
    if (this.#state !== 'idle') return;
    this.#target = target;
    this.#dial();
  }

  /** Sends data; returns false when there is no connection to send on. */
  send(data: string | Uint8Array): boolean {
    if (this.#state !== 'open') return false;
    this.#socket?.send(data);
    return true;
  }

  /** Marks the connection as a good one: if it breaks, the next wait is the shortest. */
  proven(): void {
    this.#failures = 0;
  }

  /**
   * Switches to text pings: an extended peer answers PING_TEXT without waking. Before that, WebSocket-level pings are
   * used.
   */
  useTextPings(periodSeconds: number = bounds.PING_SECONDS): void {
    if (this.#state !== 'open') return;
    const periodMs = periodSeconds * 1000;
    this.#watch(periodMs, MISSED_PINGS * periodMs, () => this.#socket?.send(PING_TEXT));
  }

  /**
   * Closes the socket for good. Resolves when the data sent before has left, or can no longer leave, within `withinMs`.
   */
  async close(code: number = CLOSE.done, reason = '', withinMs = CLOSED_WITHIN_MS): Promise<void> {
    if (this.#state === 'closed') return;
    const socket = this.#leave();
    this.#state = 'closed';
    if (!socket) return;
    const { clock } = this.#ports;
    await new Promise<void>((resolve) => {
      const limit = clock.setTimeout(
        () => {
          socket.destroy();
          resolve();
        },
        Math.min(withinMs, CLOSED_WITHIN_MS),
      );
      this.#farewell = () => {
        clock.clearTimeout(limit);
        resolve();
      };
      socket.close(code, reason);
    });
  }

  /** Gives up this connection and dials again. */
  drop(why: string): void {
    if (this.#state !== 'open' && this.#state !== 'dialling') return;
    const socket = this.#socket;
    this.#lost({ code: 1006, reason: why });
    socket?.destroy();
  }

  #dial(): void {
    this.#state = 'dialling';
    this.#timer = this.#ports.clock.setTimeout(() => this.drop('no answer to the dial'), OPEN_WITHIN_MS);
    const connection = ++this.#connection;
    // A socket that was given up may still send messages, which are ignored.
    const ifCurrent =
      <T extends unknown[]>(run: (...args: T) => void) =>
      (...args: T) => {
        if (connection === this.#connection) run(...args);
      };
    const events: SocketEvents = {
      opened: ifCurrent(() => this.#opened()),
      text: ifCurrent((text) => this.#text(text)),
      binary: ifCurrent((data) => this.#binary(data)),
      frame: ifCurrent((frame) => this.#frame(frame)),
      pong: ifCurrent(() => this.#liveness?.heard()),
      closed: (close) => {
        this.#farewell?.();
        ifCurrent(() => this.#lost(close))();
      },
    };
    this.#socket = this.#ports.dial(this.#target!, events);
  }

  #opened(): void {
    this.#ports.clock.clearTimeout(this.#timer);
    this.#state = 'open';
    this.#openedAtMs = this.#ports.clock.now();
    this.#watch(BASE_PING_MS, BASE_PONG_WITHIN_MS, () => this.#socket?.ping());
    this.#events.opened();
  }

  #text(text: string): void {
    this.#liveness?.heard();
    if (text !== PONG_TEXT) this.#events.text(text);
  }

  #binary(data: Uint8Array): void {
    this.#liveness?.heard();
    this.#events.binary(data);
  }

  #frame(frame: QueueFrame): void {
    this.#liveness?.heard();
    this.#events.frame?.(frame);
  }

  #watch(periodMs: number, silenceMs: number, ping: () => void): void {
    this.#liveness?.stop();
    const dead = () => this.drop(`silent for ${silenceMs / 1000} s after a ping`);
    this.#liveness = new Liveness(this.#ports.clock, periodMs, silenceMs, ping, dead);
  }

  #lost(close: SocketClose): void {
    const { clock, random, log } = this.#ports;
    const wasOpen = this.#state === 'open';
    if (wasOpen && clock.now() - this.#openedAtMs >= STEADY_MS) this.proven();
    this.#leave();
    this.#state = 'waiting';
    if (this.#events.closed(close) === 'stop') {
      this.#state = 'closed';
    }
    // The handler of `closed` may have closed the socket.
    if (this.state === 'closed') return;
    const restarting = close.code === CLOSE.restarting;
    const waitMs = restarting ? restartSpreadMs(random) : backoffMs(this.#failures++, random);
    const fields = { code: close.code, reason: close.reason, wait_ms: Math.round(waitMs) };
    if (wasOpen) log.info(fields, `${this.#name} socket closed; dialling again`);
    else log.warn(fields, `${this.#name} socket could not be opened; dialling again`);
    this.#timer = clock.setTimeout(() => this.#dial(), waitMs);
  }

  #leave(): Socket | null {
    const socket = this.#socket;
    this.#connection++;
    this.#liveness?.stop();
    this.#liveness = null;
    this.#socket = null;
    this.#ports.clock.clearTimeout(this.#timer);
    return socket;
  }
}

/**
 * Pings a peer and reports when it has been silent for too long. Anything that arrives from the peer counts as a sign.
 *
 * After a standstill, a process finds its timers over before it reads what has arrived. So the silence is counted in
 * two halves: if the first half ended during a standstill, the second is time to read the sockets.
 */
export class Liveness {
  readonly #clock: Clock;
  readonly #periodMs: number;
  readonly #silenceMs: number;
  readonly #ping: () => void;
  readonly #dead: () => void;
  #pingTimer: Timer;
  #deadTimer: Timer;

  /** @param silenceMs the time from the first ping without an echo until the peer counts as dead, ms */
  constructor(clock: Clock, periodMs: number, silenceMs: number, ping: () => void, dead: () => void) {
    this.#clock = clock;
    this.#periodMs = periodMs;
    this.#silenceMs = silenceMs;
    this.#ping = ping;
    this.#dead = dead;
    this.#arm();
  }

  heard(): void {
    if (this.#deadTimer === undefined) return;
    this.#clock.clearTimeout(this.#deadTimer);
    this.#deadTimer = undefined;
  }

  stop(): void {
    this.heard();
    this.#clock.clearTimeout(this.#pingTimer);
  }

  #arm(): void {
    this.#pingTimer = this.#clock.setTimeout(() => {
      this.#arm();
      this.#deadTimer ??= this.#afterHalf(() => {
        this.#deadTimer = this.#afterHalf(() => {
          this.stop();
          this.#dead();
        });
      });
      this.#ping();
    }, this.#periodMs);
  }

  #afterHalf(run: () => void): Timer {
    return this.#clock.setTimeout(run, this.#silenceMs / 2);
  }
}

const FIRST_MS = 1000;
const LONGEST_MS = 60_000;
const JITTER = 0.3;
const RESTART_SPREAD_MS = 1000;

/**
 * Returns the wait before the next dial, ms: 1 s doubling to 60 s, plus up to 30 % at random (the base protocol's
 * figures).
 * @param failures the number of connections that failed in a row before this one; 0 for the first
 */
export function backoffMs(failures: number, random: () => number): number {
  return doubling(FIRST_MS, LONGEST_MS, failures + 1) * (1 + JITTER * random());
}

/**
 * Returns the wait after a close 1012, ms: short, but spread, so that a thousand workers do not arrive at one moment.
 */
export function restartSpreadMs(random: () => number): number {
  return RESTART_SPREAD_MS * random();
}
