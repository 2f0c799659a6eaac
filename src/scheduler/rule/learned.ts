import type { Observed } from '../observed.ts';
import { learnedKey } from './candidates.ts';

/** Weight of one reconciliation: the average spans some minutes of load. */
const WEIGHT = 0.05;

/** Tokens a second of one worker by pool and instance type, from those whose slots are half busy at least. */
export function learnSpeeds(
  before: Record<string, number>,
  { sessions, launches }: Observed,
): Record<string, number> {
  const speeds = { ...before };
  const byName = new Map(launches.map((launch) => [launch.name, launch]));
  for (const { worker_id, running, slots, tokens_per_second } of sessions) {
    const launch = byName.get(worker_id);
    if (!launch || !tokens_per_second || running < slots / 2) continue;
    const key = learnedKey(launch.config_id, launch);
    const known = speeds[key] ?? tokens_per_second;
    speeds[key] = Math.round((known + WEIGHT * (tokens_per_second - known)) * 100) / 100;
  }
  return speeds;
}
