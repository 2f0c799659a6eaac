/**
 * Switches of code that only saves processor time. A measurement sets one to false in a copy of the checkout and
 * compares it with the checkout as it is (`node bench/optimisations.ts`, figures in docs/performance.md); a test may
 * set one for itself. Operators set none of these, and nothing but time depends on them. Each can be measured on Node:
 * what only the Cloudflare host saves has no switch.
 */
export const OPTIMISATIONS = {
  /** Frames that one event causes go in one message. */
  gatherFrames: true,
  /** The worker masks no message where no proxy can see it, so it copies none. */
  skipMasks: true,
  /** While many streams run, events of a stream wait a little for one another. */
  joinPieces: true,
  /** An answer that is whole when it opens is no stream. */
  wholeAnswers: true,
  /** Rows that were just written are kept, and new ones written when the command ends. */
  keepRows: true,
};
