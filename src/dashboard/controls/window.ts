import { type ReadonlySignal, signal } from '@preact/signals';

/**
 * Whether the window was low when it was opened, as on a laptop; less is then shown above the workers, so that some of
 * them are in view.
 */
export const isLow = window.matchMedia('(max-height: 760px)').matches;

/** Whether the window is as narrow as a phone's; it changes when a tablet is turned. */
export const isNarrow = matches('(max-width: 640px)');

/** Whether the page is used by touch; rows are then as high as a finger needs. */
export const isTouched = window.matchMedia('(pointer: coarse)').matches;

/** Returns whether the window is as a media query says, at any time. */
function matches(query: string): ReadonlySignal<boolean> {
  const list = window.matchMedia(query);
  const is = signal(list.matches);
  list.addEventListener('change', () => {
    is.value = list.matches;
  });
  return is;
}
