import type { EngineGauges } from '../engine/types.ts';

export interface BackpressureSettings {
  checkIntervalSeconds: number;
  /** Pause when more requests than this wait in the engine. */
  pauseAboveWaiting: number;
  /** Go on at or under this. */
  resumeAtWaiting: number;
  /** No new jobs above this share of the KV cache, 0..1; 0: whatever its usage. */
  kvCacheLimit: number;
}

/** Checks in a row that must find requests waiting: after a burst some wait for a moment, and that is normal. */
const CHECKS = 2;

/**
 * - `free`     → `watched` (a check found too many waiting), `pressed` (KV cache over its limit)
 * - `watched`  → `pressed` (the next check found too many again, or the KV cache over its limit), `free`
 * - `pressed`  → `free` (few enough waiting and the KV cache within its limit)
 */
export interface Pressure {
  isPressed: boolean;
  /** Checks in a row with too many waiting. */
  highChecks: number;
}

export const NO_PRESSURE: Pressure = { isPressed: false, highChecks: 0 };

/** What one check makes of the engine's gauges. Null gauges (no metrics page, or no answer) change nothing. */
export function nextPressure(
  before: Pressure,
  gauges: EngineGauges | null,
  settings: BackpressureSettings,
): Pressure {
  if (gauges === null) return before;
  const { pauseAboveWaiting, resumeAtWaiting, kvCacheLimit } = settings;
  const highChecks = gauges.waiting > pauseAboveWaiting ? before.highChecks + 1 : 0;
  const isFull = kvCacheLimit > 0 && gauges.kvCacheUsage > kvCacheLimit;
  const isHigh = isFull || highChecks >= CHECKS;
  const isLow = !isFull && gauges.waiting <= resumeAtWaiting;
  return { isPressed: isHigh || (before.isPressed && !isLow), highChecks };
}
