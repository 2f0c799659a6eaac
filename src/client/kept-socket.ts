import {
  bounds,
  type ClientAnswer,
  jsonFields,
  keepMembers,
  PING_TEXT,
  PONG_TEXT,
} from '../protocol/index.ts';
import { type ClientOptions, type JobClient, QueueError } from './client.ts';

/**
 * Opens the socket. Node's WebSocket accepts headers; browsers' does not, so there only a queue without tokens can be
 * used.
 */
function dial({ url, token, queueId }: ClientOptions): WebSocket {
  const address = new URL(`${url.replace(/\/+$/, '')}/api/jobs/socket`);
  address.protocol = address.protocol.replace('http', 'ws');
  if (queueId) address.searchParams.set('queue_id', queueId);
  if (!token) return new WebSocket(address);
  const options = { headers: { authorization: `Bearer ${token}` } };
  return new WebSocket(address, options as unknown as string[]);
}

/**
 * Asks by HTTP why a WebSocket was denied, since a socket does not say.
 * @returns the error if dialling again cannot help, or null if it may
 */
async function whyDenied(client: JobClient): Promise<QueueError | null> {
  try {
    await client.get('-');
  } catch (error) {
    const { status } = error as QueueError;
    if (status === 401 || status === 403) return error as QueueError;
  }
  return null;
}

/**
 * The pauses between attempts to connect, ms: doubling from the first to the last, each with up to half of it added.
 */
const PAUSE_MS = { first: 100, last: 10_000 };

interface SocketOptions extends ClientOptions {
  pingSeconds?: number;
}

interface SocketUser {
  /** Returns whether a socket that broke is dialled again. */
  isNeeded(): boolean;
  onOpen(): void;
  /** Handles a frame. @throws if it is not a valid frame */
  onFrame(frame: ClientAnswer): Promise<void>;
  /** Handles a broken connection: frames that were sent and not answered may be lost. */
  onBroken(): void;
  /** Handles a queue that denies the connection, or sends a frame that cannot be read, since it would do so again. */
  onDenied(error: QueueError): void;
}

/** A WebSocket to the queue that dials again when it breaks, for as long as its user needs it. */
export class KeptSocket {
  readonly #options: SocketOptions;
  readonly #client: JobClient;
  readonly #user: SocketUser;
  #socket: WebSocket | null = null;
  #isReady = false;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pings: ReturnType<typeof setInterval> | undefined;
  #heardAt = 0;

  constructor(options: SocketOptions, client: JobClient, user: SocketUser) {
    this.#options = options;
    this.#client = client;
    this.#user = user;
  }

  /** Whether frames can be sent. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Dials, unless there is a socket or will soon be one. */
  open(): void {
    if (this.#socket === null && this.#timer === undefined) this.#dial();
  }

  send(frame: string): void {
    if (this.#isReady) this.#socket?.send(frame);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const socket = this.#socket;
    this.#forget();
    socket?.close(1000);
  }

  #dial(): void {
    this.#timer = undefined;
    const socket = dial(this.#options);
    this.#socket = socket;
    socket.onopen = () => {
      this.#isReady = true;
      this.#user.onOpen();
    };
    this.#watch(socket);
    socket.onmessage = ({ data }) => {
      this.#heardAt = performance.now();
      if (data === PONG_TEXT) return;
      this.#failures = 0;
      void this.#read(String(data));
    };
    socket.onclose = () => this.#onClose(socket);
    // The event `close` follows each error.
    socket.onerror = () => {};
  }

  /** Reads a frame. A frame that cannot be read ends the connection, since its jobs would stay open for ever. */
  async #read(text: string): Promise<void> {
    try {
      await this.#user.onFrame(readFrame(text));
    } catch (cause) {
      const message = `The queue sent a frame that cannot be read: ${(cause as Error).message}.`;
      const error = new QueueError(message, null, 'unreadable_frame');
      error.cause = cause;
      this.#user.onDenied(error);
    }
  }

  /**
   * Ends a silent connection. A network that goes away closes nothing: a socket that only listens would wait for ever.
   */
  #watch(socket: WebSocket): void {
    const everyMs = (this.#options.pingSeconds ?? bounds.PING_SECONDS) * 1000;
    this.#heardAt = performance.now();
    let left = 0;
    clearInterval(this.#pings);
    this.#pings = setInterval(() => {
      // Bytes that are still being sent show that the connection is alive, too.
      if (socket.bufferedAmount < left) this.#heardAt = performance.now();
      left = socket.bufferedAmount;
      if (performance.now() - this.#heardAt <= 2 * everyMs) {
        if (this.#isReady) socket.send(PING_TEXT);
        return;
      }
      socket.onmessage = null;
      socket.close();
      this.#onClose(socket);
    }, everyMs);
  }

  #onClose(socket: WebSocket): void {
    if (this.#socket !== socket) return;
    const wasReady = this.#isReady;
    this.#forget();
    this.#user.onBroken();
    if (wasReady) this.#dialLater();
    else
      void whyDenied(this.#client).then((error) => (error ? this.#user.onDenied(error) : this.#dialLater()));
  }

  #forget(): void {
    clearInterval(this.#pings);
    this.#socket = null;
    this.#isReady = false;
  }

  #dialLater(): void {
    if (!this.#user.isNeeded()) return;
    // The pause is not taken from `process/backoff`: the published package has the client and the protocol only.
    const pause = Math.min(PAUSE_MS.last, PAUSE_MS.first * 2 ** this.#failures);
    this.#failures += 1;
    this.#timer = setTimeout(() => this.#dial(), pause * (1 + Math.random() / 2));
  }
}

/** Parses a frame, and preserves the JSON of the results of settled jobs as it was sent. */
function readFrame(text: string): ClientAnswer {
  const frame = JSON.parse(text) as ClientAnswer;
  if (frame.type !== 'settled') return frame;
  const { jobs } = jsonFields(new TextEncoder().encode(text), ['jobs'], Number.POSITIVE_INFINITY);
  keepMembers(frame.jobs, jobs!, ['result']);
  return frame;
}
