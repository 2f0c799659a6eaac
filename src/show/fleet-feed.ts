import { doubling } from '../process/backoff.ts';
import type { FleetFrame, FleetView, FleetViewerFrame } from '../protocol/fleet-view.ts';

/**
 * The state of the feed:
 * - `connecting`: nothing has come over the WebSocket yet
 * - `live`: views come over the WebSocket
 * - `polling`: something between here and the queue refuses WebSockets, so the feed polls
 * - `lost`: the feed lost its connection, and tries again
 * - `denied`: the API requires another token; only `retry` tries again
 *
 * connecting → live | polling | lost | denied; live, polling → lost | denied; lost, denied → live | polling.
 */
export type FeedState = 'connecting' | 'live' | 'polling' | 'lost' | 'denied';

interface FleetFeedPorts {
  /** Dials `/api/fleet/live`. */
  open(): WebSocket;
  /** Reads `GET /api/fleet`. */
  read(signal: AbortSignal): Promise<FleetView>;
  /** Returns whether an error that `read` threw says that another token is required. */
  isDenied(error: unknown): boolean;
  /** Called with the newest view, and the frame that brought it. */
  onView(view: FleetView, frame: FleetFrame): void;
  /** Called when the server answers and has nothing newer. */
  onConfirmed(): void;
  /**
   * @param retryAtMs when the next try comes, by this machine's clock; null: none is planned
   * @param error the error that `read` last threw; null: it was not called, or succeeded
   */
  onState(state: FeedState, retryAtMs: number | null, error: unknown): void;
}

/** A frame or an answer to a ping is due within this many ms; a proxy may have dropped the connection silently. */
const SILENCE_MS = 25_000;
/** A dialled socket is due within this many ms, and so is an answer: a queue that hangs accepts both and says nothing. */
const ANSWER_MS = 10_000;
const PING_MS = 10_000;
const POLL_MS = 5_000;
/** Polling begins after this many failed upgrades. */
const SOCKET_TRIES = 3;
/** While polling, a socket is tried again after this many ms. */
const RETRY_SOCKET_MS = 60_000;
const BACKOFF_MS = { first: 500, most: 10_000 };

/** Keeps a view of the fleet current, over the live socket, or by polling if none can be opened. */
export class FleetFeed {
  readonly #ports: FleetFeedPorts;
  #view: FleetView | null = null;
  #state: FeedState = 'connecting';
  #socket: WebSocket | null = null;
  #isHidden = false;
  #isStopped = false;
  /** The number of dials in a row that brought nothing. */
  #failures = 0;
  #heardAt = 0;
  #isPinged = false;
  #pollsSince = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pings: ReturnType<typeof setInterval> | undefined;

  constructor(ports: FleetFeedPorts) {
    this.#ports = ports;
  }

  /**
   * Starts the feed. @param known a view that was read from the API before: the socket then brings only what changed
   * since
   */
  start(known: FleetView | null = null): void {
    if (known) this.#show(known, { type: 'full', view: known }, 'connecting');
    this.#connect();
    this.#pings = setInterval(() => this.#watchSilence(), PING_MS);
  }

  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#pings);
    clearTimeout(this.#timer);
    this.#hangUp();
  }

  /** Pauses the feed while the page is hidden. */
  hide(): void {
    this.#isHidden = true;
    this.#send({ type: 'pause' });
    if (this.#state === 'polling') clearTimeout(this.#timer);
  }

  show(): void {
    this.#isHidden = false;
    this.retry();
  }

  /** Tries again at once. */
  retry(): void {
    if (this.#isOpen) {
      this.#heardAt = Date.now();
      return this.#watch();
    }
    clearTimeout(this.#timer);
    if (this.#state === 'polling') void this.#poll();
    else this.#connect();
  }

  get #isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  #connect(): void {
    clearTimeout(this.#timer);
    this.#hangUp();
    const socket = this.#ports.open();
    this.#socket = socket;
    this.#heardAt = Date.now();
    this.#isPinged = false;
    const dialling = setTimeout(() => socket.close(), ANSWER_MS);
    socket.onopen = () => {
      clearTimeout(dialling);
      this.#watch();
    };
    socket.onmessage = ({ data }) => {
      if (this.#socket === socket) this.#take(String(data));
    };
    // The close event reports an error too.
    socket.onerror = () => {};
    socket.onclose = () => {
      clearTimeout(dialling);
      if (this.#socket !== socket) return;
      this.#socket = null;
      void this.#afterClose();
    };
  }

  #hangUp(): void {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  /** Sends the version of the known view, so that only later changes have to come. */
  #watch(): void {
    const view = this.#view;
    this.#send({ type: 'watch', ...(view && { epoch: view.epoch, version: view.version }) });
    if (this.#isHidden) this.#send({ type: 'pause' });
  }

  #send(frame: FleetViewerFrame): void {
    if (this.#isOpen) this.#socket?.send(JSON.stringify(frame));
  }

  #take(text: string): void {
    this.#heardAt = Date.now();
    this.#failures = 0;
    this.#isPinged = false;
    if (text === 'pong') return this.#ports.onConfirmed();
    const frame = JSON.parse(text) as FleetFrame;
    const view = applyFrame(this.#view, frame);
    if (view) this.#show(view, frame, 'live');
    else this.#send({ type: 'watch' });
  }

  #show(view: FleetView, frame: FleetFrame, by: 'connecting' | 'live' | 'polling'): void {
    this.#view = view;
    this.#ports.onView(view, frame);
    this.#become(by);
  }

  #become(state: FeedState, retryAtMs: number | null = null, error: unknown = null): void {
    if (this.#state !== 'polling' && state === 'polling') this.#pollsSince = Date.now();
    this.#state = state;
    this.#ports.onState(state, retryAtMs, error);
  }

  /** Calls the API after a close, since a browser does not tell why an upgrade failed. */
  async #afterClose(): Promise<void> {
    this.#failures += 1;
    let error: unknown = null;
    if (this.#failures >= SOCKET_TRIES || this.#state === 'connecting') {
      const answer = await this.#read();
      if (this.#isStopped || answer.isDenied) return;
      if (answer.isRead && this.#failures >= SOCKET_TRIES) return this.#pollLater();
      error = answer.error;
    }
    const pause = doubling(BACKOFF_MS.first, BACKOFF_MS.most, this.#failures);
    this.#tryLater(this.#state === 'polling' ? 'polling' : 'lost', pause, error);
  }

  async #poll(): Promise<void> {
    const { isRead, isDenied, error } = await this.#read();
    if (this.#isStopped || isDenied) return;
    if (isRead) return this.#pollLater();
    this.#failures += 1;
    this.#tryLater('lost', POLL_MS, error);
  }

  #pollLater(): void {
    clearTimeout(this.#timer);
    if (this.#isHidden) return;
    if (Date.now() - this.#pollsSince < RETRY_SOCKET_MS) {
      this.#timer = setTimeout(() => void this.#poll(), POLL_MS);
      return;
    }
    this.#pollsSince = Date.now();
    this.#connect();
  }

  async #read(): Promise<{ isRead: boolean; isDenied: boolean; error: unknown }> {
    try {
      const view = await this.#ports.read(AbortSignal.timeout(ANSWER_MS));
      if (!this.#isStopped) this.#show(view, { type: 'full', view }, 'polling');
      return { isRead: true, isDenied: false, error: null };
    } catch (error) {
      const isDenied = this.#ports.isDenied(error);
      if (isDenied && !this.#isStopped) this.#become('denied', null, error);
      return { isRead: false, isDenied, error };
    }
  }

  #tryLater(state: FeedState, ms: number, error: unknown): void {
    clearTimeout(this.#timer);
    this.#become(state, Date.now() + ms, error);
    this.#timer = setTimeout(() => this.#connect(), ms);
  }

  #watchSilence(): void {
    if (!this.#isOpen || this.#isHidden) return;
    if (Date.now() - this.#heardAt > SILENCE_MS) return this.#socket?.close();
    // No ping is sent before the last one has been answered.
    if (this.#isPinged) return;
    this.#isPinged = true;
    this.#socket?.send('ping');
  }
}

/**
 * Returns the view after a frame, or null if a frame before it is missing. Rows that the frame does not name stay the
 * same objects.
 */
export function applyFrame(view: FleetView | null, frame: FleetFrame): FleetView | null {
  if (frame.type === 'full') return frame.view;
  if (!view) return null;
  const { version, at, summary, attention, scaling, aliases, gone } = frame;
  return {
    ...view,
    version,
    at,
    summary,
    attention,
    scaling,
    ...(aliases && { aliases }),
    pools: replaced(view.pools, frame.pools, gone.pools, ({ config_id }) => config_id),
    workers: replaced(view.workers, frame.workers, gone.workers, ({ worker_id }) => worker_id),
    launches: replaced(view.launches, frame.launches, gone.launches, ({ id }) => id),
  };
}

function replaced<Row>(rows: Row[], changed: Row[], gone: string[], idOf: (row: Row) => string): Row[] {
  if (changed.length === 0 && gone.length === 0) return rows;
  const left = new Map(changed.map((row) => [idOf(row), row]));
  const removed = new Set(gone);
  const kept = rows.flatMap((row) => {
    const id = idOf(row);
    const newer = left.get(id);
    left.delete(id);
    return removed.has(id) && !newer ? [] : [newer ?? row];
  });
  return [...kept, ...left.values()];
}
