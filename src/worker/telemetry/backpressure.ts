import type { EngineGauges } from '../../engine/client/types.ts';

export interface BackpressureSettings {
  /** Time between two checks, s; a backlog must last this long before it counts. */
  checkIntervalSeconds: number;
  /** The worker pauses when more requests than this wait in the engine. */
  pauseAboveWaiting: number;
  /** The worker resumes when at most this many requests wait. */
  resumeAtWaiting: number;
}

/** Time between two checks while a backlog is suspected or dispatch is paused, ms. */
const RECHECK_MS = 500;
/**
 * The worker takes no new jobs above this share of the KV cache: soon after it vLLM preempts requests and computes
 * their prompts again. The last twentieth is room for the tokens of requests that run already.
 */
const KV_CACHE_LIMIT = 0.95;
/** This share of the slots may wait in the engine without being a backlog. */
const DEFAULT_SHARE = 1 / 4;

/**
 * The pressure on the engine:
 *
 * - `free`     → `watched` (a check found too many waiting), `pressed` (KV cache over its limit)
 * - `watched`  → `pressed` (every check of a whole interval found too many, or the KV cache is over its limit), `free`
 *   (a check found fewer)
 * - `pressed`  → `free` (few enough waiting and the KV cache within its limit)
 */
export interface Pressure {
  isPressed: boolean;
  /** The time of the first of the checks in a row that found too many waiting, epoch ms; null: the last found fewer. */
  highSinceMs: number | null;
}

export const NO_PRESSURE: Pressure = { isPressed: false, highSinceMs: null };

/**
 * Returns the default of `pauseAboveWaiting`. An engine counts a request as waiting until its next step takes it up, so
 * requests that arrive during one step are seen waiting on a healthy engine too.
 */
export function defaultPauseThreshold(slots: number): number {
  return Math.ceil(slots * DEFAULT_SHARE);
}

/** Returns the pressure after a check. Null gauges (no metrics page, or no answer) change nothing. */
export function nextPressure(
  before: Pressure,
  gauges: EngineGauges | null,
  settings: BackpressureSettings,
  nowMs: number,
): Pressure {
  if (gauges === null) return before;
  const { checkIntervalSeconds, pauseAboveWaiting, resumeAtWaiting } = settings;
  const highSinceMs = gauges.waiting > pauseAboveWaiting ? (before.highSinceMs ?? nowMs) : null;
  const isFull = gauges.kvCacheUsage > KV_CACHE_LIMIT;
  const isBacklog = highSinceMs !== null && nowMs - highSinceMs >= checkIntervalSeconds * 1000;
  const isLow = !isFull && gauges.waiting <= resumeAtWaiting;
  return { isPressed: isFull || isBacklog || (before.isPressed && !isLow), highSinceMs };
}

/** Returns the time until the next check, ms: a suspicion is soon confirmed or dropped, and a pause soon ended. */
export function nextCheckMs(pressure: Pressure, settings: BackpressureSettings): number {
  const intervalMs = settings.checkIntervalSeconds * 1000;
  const isCalm = !pressure.isPressed && pressure.highSinceMs === null;
  return isCalm ? intervalMs : Math.min(RECHECK_MS, intervalMs);
}
