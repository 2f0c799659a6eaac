import type { AskedFor, Objects } from '../../asking/objects.ts';
import { elsewhere, Moving, stayed } from '../../moving/mover.ts';
import { type BrokenReason, CLOSE, PING_TEXT, PONG_TEXT } from '../../protocol/index.ts';
import type { RelaySettings } from '../ports.ts';
import { Relay } from '../relay.ts';
import type { CallerSink, Opening } from '../stream-ports.ts';
import { type OpenedAnswer, responseOf } from './responses.ts';

const TICK_MS = 1000;

const LEAVES: BrokenReason = { message: 'the queue starts again', code: 'worker_error', retryable: true };

/** The headers that a response gets beside the engine's own. */
type Headers = Record<string, string>;

/** The clock of a relay. */
export interface RelayClock {
  /** Returns ms of a clock that never goes back; only differences count. */
  now(): number;
  after(ms: number, run: () => void): void;
}

/** The relay's end of a worker's answer socket, which the host provides. Its methods never throw. */
export interface WorkerSocket {
  send(message: string | Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

/** The events of a worker's answer socket that the host reports. */
export interface WorkerSocketEvents {
  /** @returns whether somebody still reads the bytes of the message; else the host may free them */
  message(message: string | ArrayBuffer | Uint8Array): boolean;
  closed(): void;
}

/** The relay of one worker: sockets in, answers out, one timer. It stores nothing. */
export class RelayHost {
  readonly #relay: Relay;
  readonly #moving: Moving;
  readonly #clock: RelayClock;
  /** The newest answer socket. */
  #socket: WorkerSocket | null = null;
  #isTicking = false;
  /** The number of bytes that the worker has sent. */
  received = 0;

  constructor(settings: RelaySettings, objects: Objects, clock: RelayClock) {
    this.#clock = clock;
    const now = () => clock.now();
    this.#moving = new Moving({
      elsewhere: (asked) => elsewhere(objects, asked),
      stayed: (asked, why) => stayed(objects, asked, why),
      goOn: (id, events) => this.#relay.goOn(id, events),
      movedTo: (id, reason) => this.#relay.movedTo(id, reason),
      now,
    });
    this.#relay = new Relay(now, settings, this.#moving);
  }

  /** Whether the relay is neither connected nor in use: then nothing is lost with it. */
  get isIdle(): boolean {
    return this.#socket === null && !this.#relay.isBusy;
  }

  /** Whether the relay has an answer socket. */
  get isConnected(): boolean {
    return this.#socket !== null;
  }

  /** The number of answers on their way to callers, or kept for readers. */
  get streams(): number {
    return this.#relay.carried;
  }

  /** Takes the answer socket that the worker has dialled, which replaces an older one. */
  connected(socket: WorkerSocket): WorkerSocketEvents {
    this.#socket = socket;
    this.#relay.onSocket(socket);
    return {
      message: (message) => this.#heard(socket, message),
      closed: () => {
        socket.close(CLOSE.done, '');
        this.#lost(socket);
      },
    };
  }

  /** Closes the answer socket with 1012: its worker dials again, if there still is a queue and its token is good. */
  closeSocket(): void {
    const socket = this.#socket;
    if (socket === null) return;
    socket.close(CLOSE.restarting, 'dial again');
    // Messages that arrive after the close are ignored.
    this.#lost(socket);
  }

  /** Tells all callers and readers that the process is about to end. */
  leave(): void {
    this.#relay.breakAll(LEAVES);
    this.closeSocket();
  }

  /** Breaks the stream of an attempt that the queue found lost. */
  breakStream(stream: number, reason: BrokenReason): void {
    this.#relay.breakStream(stream, reason);
    this.#arm();
  }

  /**
   * Resolves to the answer of one attempt as soon as it opens.
   * @param asked null: the answer is not moved
   */
  async openAnswer(id: number, asked: AskedFor | null): Promise<OpenedAnswer> {
    const kept = asked && { asked, openedAt: this.#clock.now(), answeredAt: null as number | null };
    const opening = await new Promise<Opening>((resolve) => {
      this.#relay.open(id, resolve, kept);
      this.#arm();
    });
    if (!opening.ok) return { broken: opening.reason };
    if (kept) kept.answeredAt = this.#clock.now();
    return {
      head: opening.head,
      // By now the relay has taken all records of the message.
      whole: this.#relay.takeWhole(id),
      attach: (sink) => this.#relay.attach(id, sink),
      reads: () => {
        this.#relay.callerReads(id);
        this.#moving.callerReads(id);
      },
      gone: () => this.gone(id),
    };
  }

  /** Resolves to the answer as a response, whose cancel cancels the stream. @param more headers beside the engine's */
  async open(id: number, more: Headers, asked: AskedFor | null): Promise<Response> {
    return responseOf(await this.openAnswer(id, asked), more);
  }

  /** Cancels an answer whose caller is gone, whether it has opened or not. */
  gone(id: number): void {
    this.#relay.callerGone(id);
    this.#moving.callerGone(id);
  }

  /**
   * Resolves to a stored job's answer from its beginning.
   * @param signal fires when the reader leaves; nothing is cancelled
   */
  openReplayAnswer(id: number, signal: AbortSignal): Promise<OpenedAnswer> {
    const opened = new Promise<OpenedAnswer>((resolve) => {
      const stop = this.#relay.openReplay(id, (opening) =>
        resolve(
          opening.ok
            ? { head: opening.head, whole: null, ...this.#reader(id, signal) }
            : { broken: opening.reason },
        ),
      );
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop);
    });
    this.#arm();
    return opened;
  }

  /** Resolves to a stored job's answer as a response. @param more headers beside the engine's */
  async openReplay(id: number, more: Headers, signal: AbortSignal): Promise<Response> {
    return responseOf(await this.openReplayAnswer(id, signal), more);
  }

  #reader(id: number, signal: AbortSignal) {
    const { replays } = this.#relay;
    let sink: CallerSink | null = null;
    const gone = () => {
      if (sink) replays.leave(id, sink);
    };
    signal.addEventListener('abort', gone);
    return {
      attach: (attached: CallerSink) => {
        sink = attached;
        replays.attach(id, sink);
        // A signal that has already fired sends no event.
        if (signal.aborted) gone();
      },
      reads: () => {
        if (sink) replays.readerReads(id, sink);
      },
      gone,
    };
  }

  #heard(socket: WorkerSocket, message: string | ArrayBuffer | Uint8Array): boolean {
    if (typeof message !== 'string') {
      this.received += message.byteLength;
      const isRead = this.#relay.onMessage(socket, message);
      this.#arm();
      return isRead;
    }
    if (message === PING_TEXT) {
      this.#relay.onPing();
      socket.send(PONG_TEXT);
    }
    return false;
  }

  #lost(socket: WorkerSocket): void {
    if (this.#socket === socket) this.#socket = null;
    this.#relay.onSocketClosed(socket);
  }

  #arm(): void {
    if (this.#isTicking || !this.#relay.isBusy) return;
    this.#isTicking = true;
    this.#clock.after(TICK_MS, () => {
      this.#isTicking = false;
      this.#relay.onTick();
      this.#arm();
    });
  }
}
