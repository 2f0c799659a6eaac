/** What is known of a job's length. */
export interface Workload {
  /** Most tokens it may generate; null: not known. */
  maxTokens: number | null;
  /** Time its request has been in the engine, ms; 0 before it is sent. */
  elapsedMs: number;
}

/**
 * Whether a job that uses up its `max_tokens` at this rate would still run after `withinMs`. False where that cannot be
 * told: the job gets its chance.
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
 * Whether a drain moves an answer at its start: what is left of it takes longer than the grace, at the pace that it has.
 * What cannot be told is given its chance, and moves at the end of the grace.
 * @param streamedMs since its first token
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
