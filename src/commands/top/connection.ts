import { applyFrame } from '../../dashboard/frames.ts';
import type { FleetFrame, FleetView } from '../../protocol/index.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';

export interface Watched {
  /** The newest; its clock is the server's. */
  onFrame(frame: FleetFrame, view: FleetView): void;
  /** "live", or what is the matter. */
  onState(state: string): void;
}

const PING_MS = 10_000;
/** No answer to a ping in this time, ms: the connection is gone. */
const SILENCE_MS = 25_000;
const RETRY_MS = 2000;
const POLL_MS = 5000;
/** Upgrades refused in a row before polling takes over. */
const SOCKET_TRIES = 3;

/**
 * The fleet once, by HTTP.
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export function readFleet(target: QueueTarget): Promise<FleetView> {
  return askQueueJson(target, '/api/fleet', { scope: 'read' });
}

/** Watches until stopped: over the live socket, by polling where none can be opened, and again after a restart. */
export class FleetConnection {
  readonly #address: QueueTarget;
  readonly #watched: Watched;
  #view: FleetView | null = null;
  #socket: WebSocket | null = null;
  #refused = 0;
  #heardAt = 0;
  #isStopped = false;
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();

  constructor(address: QueueTarget, watched: Watched) {
    this.#address = address;
    this.#watched = watched;
    this.#dial();
    const pings = setInterval(() => this.#ping(), PING_MS);
    this.#timers.add(pings);
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#socket?.close();
  }

  #dial(): void {
    const { url, token, queueId } = this.#address;
    const address = new URL(`${url.replace(/\/+$/, '')}/api/fleet/live`);
    address.protocol = address.protocol.replace('http', 'ws');
    if (queueId) address.searchParams.set('queue_id', queueId);
    // Node's WebSocket takes headers.
    const options = token ? { headers: { authorization: `Bearer ${token}` } } : {};
    const socket = new WebSocket(address, options as unknown as string[]);
    this.#socket = socket;
    socket.onopen = () => {
      this.#refused = 0;
      this.#heardAt = performance.now();
      this.#watch();
    };
    socket.onmessage = ({ data }) => this.#take(String(data));
    socket.onclose = () => this.#closed();
    // Told by its close event too.
    socket.onerror = () => {};
  }

  #watch(): void {
    const known = this.#view && { epoch: this.#view.epoch, version: this.#view.version };
    this.#socket?.send(JSON.stringify({ type: 'watch', ...known }));
    this.#watched.onState('live');
  }

  #take(text: string): void {
    this.#heardAt = performance.now();
    if (text === 'pong') return;
    const frame = JSON.parse(text) as FleetFrame;
    this.#view = applyFrame(this.#view, frame);
    if (this.#view) this.#watched.onFrame(frame, this.#view);
  }

  #ping(): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    if (performance.now() - this.#heardAt > SILENCE_MS) this.#socket.close();
    else this.#socket.send('ping');
  }

  #closed(): void {
    if (this.#isStopped) return;
    this.#socket = null;
    this.#refused += 1;
    this.#watched.onState('connection lost, trying again');
    if (this.#refused < SOCKET_TRIES) this.#later(RETRY_MS, () => this.#dial());
    else void this.#poll();
  }

  /** A proxy that refuses upgrades lets this through; each time a socket is tried again first where nothing answers. */
  async #poll(): Promise<void> {
    try {
      const view = await readFleet(this.#address);
      if (this.#isStopped) return;
      this.#view = view;
      this.#watched.onState('polling: WebSockets are refused on the way');
      this.#watched.onFrame({ type: 'full', view }, view);
      this.#later(POLL_MS, () => void this.#poll());
    } catch (error) {
      this.#watched.onState((error as Error).message);
      this.#refused = SOCKET_TRIES - 1;
      this.#later(RETRY_MS, () => this.#dial());
    }
  }

  #later(ms: number, run: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, ms);
    this.#timers.add(timer);
  }
}
