/**
 * The bounds of the wait for a slot, s. The bounds of latencies are vLLM's own (vllm/v1/metrics/buckets.py), so that
 * panels of both overlay. Everything that stores, exports or reads a histogram takes its bounds from this file.
 */

export const QUEUE_WAIT_BOUNDS = [
  0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14_400,
] as const;

export const FIRST_TOKEN_BOUNDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
] as const;

/** The bounds of the share of a prompt that its worker is expected to have computed before; 0 counts alone. */
export const PREFIX_MATCH_BOUNDS = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1] as const;

/** The bounds of the time between two tokens of an answer, as the mean of the answer, s. */
export const PER_TOKEN_BOUNDS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
] as const;

/** The bounds of the time from submission to settlement, and from dispatch to settlement, s. */
export const DURATION_BOUNDS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
] as const;
