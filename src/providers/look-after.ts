import { sleep } from '../process/clock.ts';
import type { LaunchOutcome } from '../scheduler/rpc.ts';
import type { DriverPorts } from './driver.ts';
import { NotSentError, unknownFrom } from './rest.ts';

/** The number of looks by name after a create with an unknown outcome. */
const LOOKS = 3;

/**
 * Looks whether a machine exists although its create did not get the expected answer.
 * @param find returns the machine of that name, or null where it is not listed; a look that fails counts as not listed
 * @param cause why the outcome of the create is unknown
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
