import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';

/**
 * Waits for a state instead of for a time: probes until the answer is truthy and returns it.
 * A probe that throws counts as "not yet".
 * @param what the state waited for, named in the failure: "the job is settled"
 * @throws Error naming what was waited for and the last value or error seen
 */
export async function until<T>(
  probe: () => T | Promise<T>,
  what: string,
  { timeoutMs = 60_000, everyMs = 20 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let last: unknown;
    try {
      const value = await probe();
      if (value) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() >= deadline) {
      throw new Error(`waited ${timeoutMs} ms until ${what}; last seen: ${inspect(last, { depth: 4 })}`);
    }
    await sleep(everyMs);
  }
}
