import { batch, computed, signal } from '@preact/signals';
import type { FleetView } from '../protocol/fleet-view.ts';
import { type FeedState, FleetFeed } from '../show/fleet-feed.ts';
import { ApiFailure, ask } from './api.ts';
import { learnClock, now } from './clock.ts';
import { at } from './router.ts';

export const connection = signal<FeedState>('connecting');
/** The newest view of the fleet; null until the first arrives. */
export const fleet = signal<FleetView | null>(null);
/** When the next try comes, epoch ms of this machine; null: none is planned. */
export const retryAt = signal<number | null>(null);
/** Whether the first view did not come in time; it is still awaited. */
export const isOverdue = signal(false);
/** The API's answer that says why nothing is shown. */
export const denial = signal<ApiFailure | null>(null);
/** When the server last confirmed the view, epoch ms of its clock. */
const confirmedAt = signal<number | null>(null);
/** The age of what is shown, ms; null before the first view. */
export const dataAge = computed(() =>
  confirmedAt.value === null ? null : Math.max(0, now.value - confirmedAt.value),
);

/** The first view is awaited for at most this many ms. */
const FIRST_VIEW_MS = 5000;

const feed = new FleetFeed({
  open: () => new WebSocket(at('api/fleet/live').replace(/^http/, 'ws')),
  read: (signal) => ask<FleetView>('api/fleet', { signal }),
  isDenied: (error) => error instanceof ApiFailure && (error.status === 401 || error.status === 403),
  onView: (view) => {
    batch(() => {
      learnClock(view.at);
      fleet.value = view;
      confirmedAt.value = view.at;
    });
  },
  onConfirmed: () => {
    confirmedAt.value = now.peek();
  },
  onState: (state, retryAtMs, error) => {
    batch(() => {
      if (state === 'denied') denial.value = error as ApiFailure;
      else if (state !== 'lost') denial.value = null;
      retryAt.value = retryAtMs;
      connection.value = state;
    });
  },
});

/**
 * Keeps `fleet` current until the page is closed. The document has already requested the first view, while these
 * programs loaded; it is compressed, which frames of a WebSocket are not.
 */
export async function startLive(): Promise<void> {
  // If the first view does not come, the feed reads it again, and reports why.
  const signal = AbortSignal.timeout(FIRST_VIEW_MS);
  const first = await ask<FleetView>('api/fleet', { signal }).catch((error: ApiFailure) => {
    isOverdue.value = error.status === 0;
    return null;
  });
  if (document.hidden) feed.hide();
  feed.start(first);
  document.addEventListener('visibilitychange', () => (document.hidden ? feed.hide() : feed.show()));
  addEventListener('online', resume);
}

/** Tries again at once, after signing in or when the user asks for it. */
export function resume(): void {
  feed.retry();
}
