import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ApiFailure, ask } from './api.ts';

export interface Polled<T> {
  /** The newest answer; null before the first. */
  data: T | null;
  /** Why there is none, or none newer. */
  failure: ApiFailure | null;
}

/**
 * Returns what a part of the page says about its own failure, or null: that the queue does not answer is said
 * once, by the bar at the top of the page.
 */
export function ownFailure(failure: ApiFailure | null): string | null {
  return failure === null || failure.status === 0 ? null : failure.message;
}

/**
 * What the API answers at a path, asked again so long after each answer; a hidden tab asks nothing.
 * @param path null: nothing is asked
 * @param again another one than before: it is asked again at once
 */
export function usePolled<T>(path: string | null, everyMs: number, again = 0): Signal<Polled<T>> {
  const asked = useRef(path);
  const state = useSignal<Polled<T>>({ data: null, failure: null });
  useEffect(() => {
    if (asked.current !== path) state.value = { data: null, failure: null };
    asked.current = path;
    if (path === null) return;
    return repeat(everyMs, async (signal) => {
      try {
        state.value = { data: await ask<T>(path, { signal }), failure: null };
      } catch (error) {
        if (error instanceof ApiFailure) state.value = { ...state.peek(), failure: error };
      }
    });
  }, [path, everyMs, again]);
  return state;
}

/**
 * Acts at once, and again so long after each end, while the tab is seen.
 * @param act gets a signal that ends with the last call
 * @returns ends it
 */
export function repeat(everyMs: number, act: (signal: AbortSignal) => Promise<void>): () => void {
  const over = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isRunning = false;
  const run = async () => {
    clearTimeout(timer);
    if (isRunning || document.hidden) return;
    isRunning = true;
    try {
      await act(over.signal);
    } finally {
      isRunning = false;
      if (!over.signal.aborted) timer = setTimeout(run, everyMs);
    }
  };
  document.addEventListener('visibilitychange', run);
  void run();
  return () => {
    over.abort();
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', run);
  };
}
