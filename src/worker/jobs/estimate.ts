/** What is known of a job's length. */
export interface Workload {
  /** Most tokens it may generate; null: not known. */
  maxTokens: number | null;
  /** Time its request has been in the engine, ms; 0 before it is sent. */
  elapsedMs: number;
}

/**
 * Whether a job that uses up its `max_tokens` at this rate would still run after `withinMs`.
 * What cannot be told is given its chance.
 * @param tokensPerSecond of one request at the present load; null: not known
 */
export function cannotEndWithin(
  { maxTokens, elapsedMs }: Workload,
  tokensPerSecond: number | null,
  withinMs: number,
): boolean {
  if (maxTokens === null || tokensPerSecond === null) return false;
  return (maxTokens / tokensPerSecond) * 1000 - elapsedMs > withinMs;
}

/**
 * Whether a drain releases the job at its start: it cannot end inside the grace, and nobody has read a
 * part of its answer, which another attempt could not continue.
 */
export function mustReleaseInDrain(
  job: Workload & { hasReader: boolean },
  tokensPerSecond: number | null,
  graceMs: number,
): boolean {
  return !job.hasReader && cannotEndWithin(job, tokensPerSecond, graceMs);
}
