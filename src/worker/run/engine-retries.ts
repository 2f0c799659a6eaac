import { doubling } from '../../process/backoff.ts';
import { sleep } from '../../process/clock.ts';
import { failureOf } from '../failure.ts';
import type { Ports } from '../ports.ts';

/**
 * The number of requests in all for one job, and the pause before the second, ms, which doubles; both as in the
 * deployed worker.
 */
const TRIES = 3;
const FIRST_PAUSE_MS = 500;

/**
 * The codes of engine failures that may pass. A request that the engine refuses, or that fails in the worker, is not
 * repeated.
 */
const MAY_PASS = new Set(['engine_error', 'engine_overloaded', 'engine_unreachable', 'engine_died']);

/**
 * Runs a job again if its engine failed it for a reason that may pass, for queues that make no other attempt.
 * @param hasYielded a reader has a part of the job's answer, which another try would not continue
 * @throws what the last try threw
 */
export async function withEngineRetries<T>(
  clock: Ports['clock'],
  signal: AbortSignal,
  hasYielded: () => boolean,
  run: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await run();
    } catch (error) {
      const { code, retryable } = failureOf(error);
      if (tries >= TRIES || signal.aborted || !retryable || !MAY_PASS.has(code) || hasYielded()) throw error;
      await sleep(clock, doubling(FIRST_PAUSE_MS, Number.POSITIVE_INFINITY, tries));
      if (signal.aborted) throw error;
    }
  }
}
