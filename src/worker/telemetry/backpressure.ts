import type { EngineGauges } from '../../engine/client/types.ts';

export interface BackpressureSettings {
  /** Between two checks, and how long a backlog must last before it counts. */
  checkIntervalSeconds: number;
  /** Pause when more requests than this wait in the engine. */
  pauseAboveWaiting: number;
  /** Resume at or under this. */
  resumeAtWaiting: number;
}

/** Between two checks while a backlog is suspected or dispatch is paused, ms. */
const RECHECK_MS = 500;
/**
 * No new jobs above this share of the KV cache: soon after it vLLM preempts requests and computes their prompts again.
 * The last twentieth is room for the tokens of what runs already.
 */
const KV_CACHE_LIMIT = 0.95;
/** Share of the slots that may wait in the engine without being a backlog. */
const DEFAULT_SHARE = 1 / 4;

/**
 * - `free`     → `watched` (a check found too many waiting), `pressed` (KV cache over its limit)
 * - `watched`  → `pressed` (every check of a whole interval found too many, or the KV cache is over its
 *                limit), `free` (a check found fewer)
 * - `pressed`  → `free` (few enough waiting and the KV cache within its limit)
 */
export interface Pressure {
  isPressed: boolean;
  /** When the first of the checks in a row with too many waiting was made, epoch ms; null: the last found fewer. */
  highSinceMs: number | null;
}

export const NO_PRESSURE: Pressure = { isPressed: false, highSinceMs: null };

/**
 * The default of `pauseAboveWaiting`. An engine counts a request as waiting until its next step takes it up, so
 * whatever arrives during one step is seen waiting on a healthy engine too.
 */
export function defaultPauseThreshold(slots: number): number {
  return Math.ceil(slots * DEFAULT_SHARE);
}

/** What one check makes of the engine's gauges. Null gauges (no metrics page, or no answer) change nothing. */
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

/** Time until the next check, ms: a suspicion is soon confirmed or dropped, and a pause soon ended. */
export function nextCheckMs(pressure: Pressure, settings: BackpressureSettings): number {
  const intervalMs = settings.checkIntervalSeconds * 1000;
  const isCalm = !pressure.isPressed && pressure.highSinceMs === null;
  return isCalm ? intervalMs : Math.min(RECHECK_MS, intervalMs);
}
