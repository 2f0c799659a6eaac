import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ApiFailure, ask } from './api.ts';

export interface Polled<T> {
  /** The newest answer; null: there is none yet. */
  data: T | null;
  /** The reason why there is no answer, or no newer one; null: the newest call succeeded. */
  failure: ApiFailure | null;
}

/**
 * Returns the text of a part's own failure, or null if the queue does not answer, which the bar at the top of the page
 * says once.
 */
export function ownFailure(failure: ApiFailure | null): string | null {
  return failure === null || failure.status === 0 ? null : failure.message;
}

/**
 * Returns the API's answer at a path, which is read again `everyMs` after each answer; a hidden tab reads nothing.
 * @param path null: nothing is to be read
 * @param again a number whose change causes a read at once
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
 * Acts at once, and again `everyMs` after each end, while the tab is visible.
 * @param act gets a signal that aborts when the repetition ends
 * @returns a function that ends the repetition
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
