import { batch, computed, signal } from '@preact/signals';
import type { FleetFrame, FleetView, FleetViewerFrame } from '../protocol/fleet-view.ts';
import { ApiFailure, ask } from './api.ts';
import { learnClock, now } from './clock.ts';
import { applyFrame } from './frames.ts';
import { at } from './router.ts';

/**
 * - `connecting`: no answer yet
 * - `live`: by the WebSocket
 * - `polling`: something between here and the queue refuses WebSockets
 * - `lost`: it was one of these, and is tried again at `retryAt`
 * - `denied`: the API wants another token than this page has
 *
 * connecting → live | polling | lost | denied; live, polling → lost | denied; lost, denied → live | polling.
 */
export type Connection = 'connecting' | 'live' | 'polling' | 'lost' | 'denied';

export const connection = signal<Connection>('connecting');
/** The newest view of the fleet; null before the first. */
export const fleet = signal<FleetView | null>(null);
/** Epoch ms of this machine when the next try comes; null: none is planned. */
export const retryAt = signal<number | null>(null);
/** Why nothing is shown, where the API says why. */
export const denial = signal<ApiFailure | null>(null);
/** When the server last told that the view holds, epoch ms of its clock. */
const confirmedAt = signal<number | null>(null);
/** How old what is shown is, ms; null before the first view. */
export const dataAge = computed(() =>
  confirmedAt.value === null ? null : Math.max(0, now.value - confirmedAt.value),
);

/** A frame or an answer to a ping is due in this time, ms; a proxy may have dropped the connection unsaid. */
const SILENCE_MS = 25_000;
const PING_MS = 10_000;
const POLL_MS = 5_000;
/** Upgrades that fail before polling takes over. */
const SOCKET_TRIES = 3;
/** While polling, a socket is tried again after so many ms. */
const RETRY_SOCKET_MS = 60_000;
const BACKOFF_MS = { first: 500, most: 10_000 };

let socket: WebSocket | null = null;
let failures = 0;
let heardAt = 0;
let isPinged = false;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Keeps `fleet` current until the page is closed. */
export function startLive(): void {
  connect();
  setInterval(watchSilence, PING_MS);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) return resume();
    if (socket?.readyState === WebSocket.OPEN) send({ type: 'pause' });
    // A hidden tab does not poll.
    if (connection.value === 'polling') clearTimeout(timer);
  });
  addEventListener('online', resume);
}

/** Tries again at once: after signing in, and when the tab is seen again. */
export function resume(): void {
  if (socket?.readyState === WebSocket.OPEN) {
    heardAt = Date.now();
    return watch();
  }
  clearTimeout(timer);
  if (connection.value === 'polling') void poll();
  else connect();
}

function connect(): void {
  clearTimeout(timer);
  socket?.close();
  const opened = new WebSocket(at('api/fleet/live').replace(/^http/, 'ws'));
  socket = opened;
  heardAt = Date.now();
  isPinged = false;
  opened.onopen = watch;
  opened.onmessage = ({ data }) => socket === opened && take(String(data));
  opened.onclose = () => {
    if (socket !== opened) return;
    socket = null;
    void afterClose();
  };
}

/** Says what is known here, so that only what changed since has to come. */
function watch(): void {
  const view = fleet.peek();
  send({ type: 'watch', ...(view && { epoch: view.epoch, version: view.version }) });
  if (document.hidden) send({ type: 'pause' });
}

function send(frame: FleetViewerFrame): void {
  socket?.send(JSON.stringify(frame));
}

function take(text: string): void {
  heardAt = Date.now();
  failures = 0;
  isPinged = false;
  if (text === 'pong') {
    // The view holds: the server sends what changes within a second.
    confirmedAt.value = now.peek();
    return;
  }
  const frame = JSON.parse(text) as FleetFrame;
  const next = applyFrame(fleet.peek(), frame);
  if (!next) return send({ type: 'watch' });
  show(next, 'live');
}

function show(view: FleetView, by: 'live' | 'polling'): void {
  batch(() => {
    learnClock(view.at);
    fleet.value = view;
    confirmedAt.value = view.at;
    retryAt.value = null;
    denial.value = null;
    connection.value = by;
  });
}

/** A browser does not tell why an upgrade failed, so the API is asked. */
async function afterClose(): Promise<void> {
  failures += 1;
  if (failures >= SOCKET_TRIES || connection.peek() === 'connecting') {
    const answer = await read();
    if (answer && failures >= SOCKET_TRIES) return pollLater();
    if (connection.peek() === 'denied') return;
  }
  if (!isPolling()) connection.value = 'lost';
  tryLater(connect, Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** (failures - 1)));
}

const isPolling = () => connection.peek() === 'polling';

async function poll(): Promise<void> {
  const answered = await read();
  if (connection.peek() === 'denied') return;
  if (!answered) {
    failures += 1;
    connection.value = 'lost';
    return tryLater(connect, POLL_MS);
  }
  pollLater();
}

let pollsSince = Date.now();

function pollLater(): void {
  clearTimeout(timer);
  if (!isPolling()) pollsSince = Date.now();
  connection.value = 'polling';
  if (Date.now() - pollsSince < RETRY_SOCKET_MS) timer = setTimeout(() => void poll(), POLL_MS);
  else {
    pollsSince = Date.now();
    connect();
  }
}

/** @returns whether the API answered with a view */
async function read(): Promise<boolean> {
  try {
    show(await ask<FleetView>('api/fleet', { signal: AbortSignal.timeout(SILENCE_MS) }), 'polling');
    return true;
  } catch (error) {
    if (error instanceof ApiFailure && (error.status === 401 || error.status === 403)) {
      denial.value = error;
      connection.value = 'denied';
      retryAt.value = null;
    }
    return false;
  }
}

function tryLater(act: () => void, ms: number): void {
  clearTimeout(timer);
  retryAt.value = Date.now() + ms;
  timer = setTimeout(act, ms);
}

function watchSilence(): void {
  if (socket?.readyState !== WebSocket.OPEN || document.hidden) return;
  if (Date.now() - heardAt > SILENCE_MS) return socket.close();
  // None before the last one was answered.
  if (isPinged) return;
  isPinged = true;
  socket.send('ping');
}
