import type { AskedFor, Objects } from '../../asking/objects.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import { quietly } from '../../durable/quietly.ts';
import { elsewhere, stayed } from '../../moving/elsewhere/ask.ts';
import { Moving } from '../../moving/elsewhere/mover.ts';
import {
  type AnswerHead,
  type BrokenReason,
  CLOSE,
  OPTIMISATIONS,
  PING_TEXT,
  PONG_TEXT,
} from '../../protocol/index.ts';
import type { AnswerSocket, RelaySettings } from '../ports.ts';
import { Relay } from '../relay.ts';
import type { CallerSink } from '../stream-ports.ts';
import { type BodyWriter, brokenResponse, streamedResponse, wholeResponse } from './responses.ts';

const TICK_MS = 1000;

/** Headers that a response gets beside the engine's own. */
type Headers = Record<string, string>;

/**
 * The relay's rules in workerd: sockets in, responses out, one timer. It stores nothing.
 */
export class RelayHost {
  readonly #relay: Relay;
  #socket: WebSocket | null = null;
  /** Closes the newest answer socket. */
  #closeSocket: (() => void) | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** Bytes that the worker sent. */
  received = 0;

  readonly #moving: Moving;

  constructor(settings: RelaySettings, objects: Objects) {
    this.#moving = new Moving({
      elsewhere: (asked) => elsewhere(objects, asked),
      stayed: (asked, why) => stayed(objects, asked, why),
      goOn: (id, events) => this.#relay.goOn(id, events),
      movedTo: (id, reason) => this.#relay.movedTo(id, reason),
      now: () => Date.now(),
    });
    this.#relay = new Relay(() => Date.now(), settings, this.#moving);
  }

  /** Neither connected nor in use: nothing is lost with it. */
  get isIdle(): boolean {
    return this.#socket === null && !this.#relay.isBusy;
  }

  /** Answers on their way to callers, or kept for readers. */
  get streams(): number {
    return this.#relay.carried;
  }

  /**
   * The answer of one attempt, as soon as it opens. Cancelling the response's body cancels the stream.
   * @param more headers of the response beside the engine's
   * @param asked null: the answer is not moved
   */
  async open(id: number, more: Headers, asked: AskedFor | null): Promise<Response> {
    const kept = asked && { asked, openedAt: Date.now(), answeredAt: null as number | null };
    const opening = await new Promise<Parameters<Parameters<Relay['open']>[1]>[0]>((resolve) => {
      this.#relay.open(id, resolve, kept);
      this.#arm();
    });
    if (!opening.ok) return brokenResponse(opening.reason);
    if (kept) kept.answeredAt = Date.now();
    // All of one message has been taken by now.
    const whole = OPTIMISATIONS.wholeAnswers ? this.#relay.takeWhole(id) : null;
    return whole === null ? this.#respond(id, opening.head, more) : wholeResponse(opening.head, whole, more);
  }

  /** The queue found that this attempt is lost. */
  breakStream(stream: number, reason: BrokenReason): void {
    this.#relay.breakStream(stream, reason);
    this.#arm();
  }

  /** The process, or the object that this lives in, is about to end: it tells all callers and readers why. */
  breakAll(reason: BrokenReason): void {
    this.#relay.breakAll(reason);
  }

  /** Closes the answer socket with 1012: its worker dials again, if there still is a queue and its token is good. */
  closeSocket(): void {
    this.#closeSocket?.();
  }

  /** Opens the answer socket of the worker. `accept()`, not hibernation: the socket is in use all the time that it matters, at half the cost. */
  connect(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.binaryType = 'arraybuffer';
    const socket: AnswerSocket = {
      send: (message) => quietly(() => server.send(message)),
      close: (code, reason) => quietly(() => server.close(code, reason)),
    };
    server.addEventListener('message', ({ data }) => {
      if (typeof data !== 'string') {
        this.received += (data as ArrayBuffer).byteLength;
        // A worker that sends faster than garbage is collected would fill the memory with bytes without a reader.
        if (!this.#relay.onMessage(socket, data as ArrayBuffer))
          freeBytes(new Uint8Array(data as ArrayBuffer));
        this.#arm();
      } else if (data === PING_TEXT) {
        this.#relay.onPing();
        quietly(() => server.send(PONG_TEXT));
      }
    });
    const closed = (code: number, reason: string) => {
      quietly(() => server.close(code, reason));
      if (this.#socket === server) this.#socket = null;
      this.#relay.onSocketClosed(socket);
    };
    server.addEventListener('close', () => closed(CLOSE.done, ''));
    server.addEventListener('error', () => closed(CLOSE.done, ''));
    // Nothing that arrives after that is taken: another socket counts, or none.
    this.#closeSocket = () => closed(CLOSE.restarting, 'dial again');
    this.#socket = server;
    this.#relay.onSocket(socket);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** The same for the answer of a stored job, which several readers may read. */
  openReplay(id: number, more: Headers, signal: AbortSignal): Promise<Response> {
    const relay = this.#relay;
    const opened = new Promise<Response>((resolve) => {
      const stop = relay.openReplay(id, (opening) => {
        resolve(
          opening.ok
            ? this.#respondFromReplay(id, opening.head, more, signal)
            : brokenResponse(opening.reason),
        );
      });
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop);
    });
    this.#arm();
    return opened;
  }

  #respondFromReplay(id: number, head: AnswerHead, more: Headers, signal: AbortSignal): Response {
    const relay = this.#relay;
    let sink: CallerSink | null = null;
    const gone = () => sink && relay.replays.leave(id, sink);
    signal.addEventListener('abort', gone);
    const writer: BodyWriter = {
      attach: (attached) => {
        sink = attached;
        relay.replays.attach(id, sink);
        // Of a signal that fired before, no event comes.
        if (signal.aborted) gone();
      },
      reads: () => sink && relay.replays.readerReads(id, sink),
      gone,
    };
    return streamedResponse(head, writer, more);
  }

  #respond(id: number, head: AnswerHead, more: Headers): Response {
    const relay = this.#relay;
    const writer: BodyWriter = {
      attach: (sink) => relay.attach(id, sink),
      reads: () => {
        relay.callerReads(id);
        this.#moving.callerReads(id);
      },
      gone: () => this.gone(id),
    };
    return streamedResponse(head, writer, more);
  }

  /** The caller of an answer is gone. */
  gone(id: number): void {
    this.#relay.callerGone(id);
    this.#moving.callerGone(id);
  }

  #arm(): void {
    if (this.#timer !== null || !this.#relay.isBusy) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#relay.onTick();
      this.#arm();
    }, TICK_MS);
  }
}
