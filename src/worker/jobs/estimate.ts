/** What is known of a job's length. */
export interface Workload {
  /** Most tokens that the job may generate; null: not known. */
  maxTokens: number | null;
  /** Time that the job's request has been in the engine, ms; 0 before it is sent. */
  elapsedMs: number;
}

/**
 * Tells whether a job that uses up its `max_tokens` at this rate would still run after `withinMs`. Returns false if
 * that is not known: the job gets its chance.
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
 * Tells whether a drain moves an answer at its start: at its present pace the rest takes longer than the grace. An
 * answer whose rest is not known gets its chance, and moves at the end of the grace.
 * @param streamedMs time since its first token
 */
export function mustMoveInDrain(
  { made, left }: { made: number; left: number | null },
  streamedMs: number,
  graceMs: number,
): boolean {
  if (left === null || made < 2) return false;
  return (left * streamedMs) / (made - 1) > graceMs;
}

/**
 * Tells whether a drain releases the job at its start: the job cannot end inside the grace, and nobody has read a part
 * of its answer, which another attempt could not continue.
 */
export function mustReleaseInDrain(
  job: Workload & { hasReader: boolean },
  tokensPerSecond: number | null,
  graceMs: number,
): boolean {
  return !job.hasReader && cannotEndWithin(job, tokensPerSecond, graceMs);
}
