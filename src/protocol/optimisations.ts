/**
 * What is done only to save processor time, each with what it brought (docs/performance.md). A measurement sets one to
 * false in a checkout of its own and holds it against this one (`npm run bench:compare`); a test may set it for itself.
 * Nothing that an operator sets, and nothing but time depends on it.
 */
export const OPTIMISATIONS = {
  /** Frames that one event causes go in one message: 571 → 432 µs a stored job, together with others. */
  gatherFrames: true,
};
