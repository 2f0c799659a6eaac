/**
 * Whether the window was low when it was opened, as on a laptop; less is then shown above the workers, so that some of
 * them are in view.
 */
export const isLow = window.matchMedia('(max-height: 760px)').matches;
