import { DurableObject } from 'cloudflare:workers';
import {
  type AnswerHead,
  type BrokenReason,
  CLOSE,
  limits,
  PING_TEXT,
  PONG_TEXT,
} from '../protocol/index.ts';
import type { CallerSink } from './caller-stream.ts';
import { BROKEN_HEADER, type RelayCalls, TAPE_URL } from './calls.ts';
import { type AnswerSocket, Relay } from './relay.ts';
import { brokenEvents } from './sse.ts';

interface RelayEnv {
  RECONNECT_GRACE_SECONDS?: string;
}

const TICK_MS = 1000;
/** What the runtime may hold for a caller before the worker is paused, bytes. */
const CALLER_BUFFER_BYTES = 256 * 1024;
/** Responses with these statuses may not have a body. */
const BODILESS = new Set([101, 204, 205, 304]);

/** The Durable Object around the relay's rules: sockets in, responses out, one timer. It stores nothing. */
export class RelayObject extends DurableObject<RelayEnv> implements RelayCalls {
  readonly #relay: Relay;
  #socket: WebSocket | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(ctx: DurableObjectState, env: RelayEnv) {
    super(ctx, env);
    this.#relay = new Relay(() => Date.now(), {
      reconnect_grace_seconds: Number(env.RECONNECT_GRACE_SECONDS ?? limits.RECONNECT_GRACE_SECONDS),
    });
  }

  override async fetch(request: Request): Promise<Response> {
    if (request.headers.get('upgrade')?.toLowerCase() === 'websocket') return this.#accept();
    const id = Number(new URL(request.url).pathname.split('/').at(-1));
    if (request.url.startsWith(TAPE_URL)) return this.#openTape(id, request.signal);
    return this.#open(id, request.signal);
  }

  async breakStream(stream: number, reason: BrokenReason): Promise<void> {
    this.#relay.breakStream(stream, reason);
    this.#arm();
  }

  async closeSockets(): Promise<void> {
    this.#socket?.close(CLOSE.restarting, 'queue restarting');
  }

  /** `accept()`, not hibernation: the socket is in use all the time that it matters, at half the cost. */
  #accept(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.binaryType = 'arraybuffer';
    const socket: AnswerSocket = {
      send: (message) => quietly(() => server.send(message)),
      close: (code, reason) => quietly(() => server.close(code, reason)),
    };
    server.addEventListener('message', ({ data }) => {
      if (typeof data !== 'string') {
        this.#relay.onMessage(socket, data as ArrayBuffer);
        this.#arm();
      } else if (data === PING_TEXT) {
        this.#relay.onPing();
        quietly(() => server.send(PONG_TEXT));
      }
    });
    const closed = () => {
      quietly(() => server.close(CLOSE.done, ''));
      this.#relay.onSocketClosed(socket);
    };
    server.addEventListener('close', closed);
    server.addEventListener('error', closed);
    this.#socket = server;
    this.#relay.onSocket(socket);
    return new Response(null, { status: 101, webSocket: client });
  }

  #open(id: number, signal: AbortSignal): Promise<Response> {
    const gone = () => this.#relay.callerGone(id);
    if (signal.aborted) gone();
    else signal.addEventListener('abort', gone);
    const opened = new Promise<Response>((resolve) => {
      this.#relay.open(id, (opening) => {
        resolve(opening.ok ? this.#respond(id, opening.head) : brokenResponse(opening.reason));
      });
    });
    this.#arm();
    return opened;
  }

  #openTape(id: number, signal: AbortSignal): Promise<Response> {
    const relay = this.#relay;
    const opened = new Promise<Response>((resolve) => {
      const stop = relay.openTape(id, (opening) => {
        resolve(
          opening.ok ? this.#respondFromTape(id, opening.head, signal) : brokenResponse(opening.reason),
        );
      });
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop);
    });
    this.#arm();
    return opened;
  }

  #respondFromTape(id: number, head: AnswerHead, signal: AbortSignal): Response {
    const relay = this.#relay;
    let gone = () => {};
    let reads = () => {};
    signal.addEventListener('abort', () => gone());
    return responseOf(head, {
      start: (controller) => {
        const sink = sinkOf(controller, head);
        gone = () => relay.readerGone(id, sink);
        reads = () => relay.readerReads(id, sink);
        relay.attachToTape(id, sink);
        // Of a signal that fired before, no event comes.
        if (signal.aborted) gone();
      },
      pull: () => reads(),
      cancel: () => gone(),
    });
  }

  #respond(id: number, head: AnswerHead): Response {
    const relay = this.#relay;
    return responseOf(head, {
      start: (controller) => relay.attach(id, sinkOf(controller, head)),
      pull: () => relay.callerReads(id),
      cancel: () => relay.callerGone(id),
    });
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

function responseOf(head: AnswerHead, source: UnderlyingSource<Uint8Array>): Response {
  const body = new ReadableStream<Uint8Array>(
    source,
    new ByteLengthQueuingStrategy({ highWaterMark: CALLER_BUFFER_BYTES }),
  );
  // That name is the relay's own.
  const { [BROKEN_HEADER]: _, ...headers } = head.headers;
  const init: ResponseInit = { status: head.status, headers };
  // A body that the engine compressed is as its caller should get it.
  if (headers['content-encoding']) init.encodeBody = 'manual';
  return BODILESS.has(head.status) ? new Response(null, init) : new Response(body, init);
}

function sinkOf(
  controller: ReadableStreamDefaultController<Uint8Array>,
  { dialect = 'openai' }: AnswerHead,
): CallerSink {
  return {
    write: (data) => {
      quietly(() => controller.enqueue(data));
      return (controller.desiredSize ?? 0) > 0;
    },
    end: () => quietly(() => controller.close()),
    abort: (reason, mayAddEvent) => {
      if (!mayAddEvent) {
        controller.error(new Error(reason.message));
        return;
      }
      quietly(() => controller.enqueue(brokenEvents(reason, dialect)));
      quietly(() => controller.close());
    },
  };
}

function brokenResponse(reason: BrokenReason): Response {
  // A header holds no character above 255.
  const text = JSON.stringify(reason).replace(/[\u007f-\uffff]/g, escaped);
  return new Response(null, { status: 502, headers: { [BROKEN_HEADER]: text } });
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Sockets and responses that are gone throw on use; their close and cancel events tell the same. */
function quietly(use: () => void): void {
  try {
    use();
  } catch {
    // Told by the close or cancel event.
  }
}
