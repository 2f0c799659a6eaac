/**
 * Writes a duration as the page and the ledger show it: `850 ms`, `4.2 s`, `12 s`, `1 min 05 s`, `12 min`, `3 h 12
 * min`, `2 d 4 h`.
 */
export function duration(ms: number): string {
  const value = Math.max(0, ms);
  if (value < 999.5) return `${Math.round(value)} ms`;
  if (value < 9_950) return `${(value / 1000).toFixed(1)} s`;
  return inUnits(Math.round(value / 1000));
}

/** Writes a duration with seconds as the smallest unit, for a value that ticks. */
export function age(ms: number): string {
  return inUnits(Math.max(0, Math.floor(ms / 1000)));
}

function inUnits(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes} min ${String(seconds % 60).padStart(2, '0')} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, '0')} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
