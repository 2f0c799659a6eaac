/** In a low window, a laptop's, less stands above the workers, so that some of them are in view. As it was opened. */
export const isLow = window.matchMedia('(max-height: 760px)').matches;
