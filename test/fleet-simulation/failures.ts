import type { LaunchRecord } from '../../src/scheduler/launch.ts';
import { classifiedAt } from '../../src/scheduler/rule/breaker.ts';

/** Counts failures in a row: of launches that failed side by side one counts. */
export function inARow(failed: LaunchRecord[]): number {
  let failures = 0;
  let lastAt = Number.NEGATIVE_INFINITY;
  for (const launch of failed.sort((one, other) => classifiedAt(one) - classifiedAt(other))) {
    if (launch.intended_at < lastAt) continue;
    failures++;
    lastAt = classifiedAt(launch);
  }
  return failures;
}
