/**
 * Whether the window was low when it was opened, as on a laptop; less is then shown above the workers, so that some of
 * them are in view.
 */
export const isLow = window.matchMedia('(max-height: 760px)').matches;

/** Whether the window was as narrow as a phone's when it was opened; of a form only the first fields are then shown. */
export const isNarrow = window.matchMedia('(max-width: 640px)').matches;

/** Whether the page is used by touch; rows are then as high as a finger needs. */
export const isTouched = window.matchMedia('(pointer: coarse)').matches;
