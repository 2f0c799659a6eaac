import { sleep } from '../process/clock.ts';
import type { LaunchOutcome } from '../scheduler/rpc.ts';
import type { DriverPorts } from './driver.ts';
import { NotSentError, unknownFrom } from './rest.ts';

/** Looks by name after a create whose outcome is not known. */
const LOOKS = 3;

/**
 * Whether the machine is there although its create was not answered as it should be.
 * @param find by its name; null: it is not listed. That the provider does not answer is no answer either
 * @param cause why its create is in doubt
 */
export async function lookAfter(
  clock: DriverPorts['clock'],
  pauseMs: number,
  cause: unknown,
  find: () => Promise<LaunchOutcome | null>,
): Promise<LaunchOutcome> {
  for (let look = 0; look < LOOKS && !(cause instanceof NotSentError); look++) {
    if (look > 0) await sleep(clock, pauseMs);
    const found = await find().catch(() => null);
    if (found) return found;
  }
  return unknownFrom(cause);
}
