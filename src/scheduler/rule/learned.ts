import type { Observed } from '../rule-types.ts';
import { learnedKey } from './candidates.ts';

/** The weight of one reconciliation: the average spans some minutes of load. */
const WEIGHT = 0.05;

/**
 * Returns the tokens a second of one worker by pool and instance type, from workers whose slots are at least half
 * busy.
 */
export function learnSpeeds(
  before: Record<string, number>,
  { workers, launches }: Observed,
): Record<string, number> {
  const speeds = { ...before };
  for (const launch of launches) {
    const { session, heartbeat } = workers.get(launch.name) ?? {};
    const tokens_per_second = heartbeat?.tokens_per_second;
    if (!session || !tokens_per_second || session.running < session.capacity / 2) continue;
    const key = learnedKey(launch.config_id, launch);
    const known = speeds[key] ?? tokens_per_second;
    speeds[key] = Math.round((known + WEIGHT * (tokens_per_second - known)) * 100) / 100;
  }
  return speeds;
}
