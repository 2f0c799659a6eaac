import type { Plan, WorkerPlan } from './plan.ts';
import type { RunResult } from './simulation.ts';
import { simulate } from './simulation.ts';

/** Runs that shrinking may cost. */
const MOST_RUNS = 300;

export interface Shrunk {
  plan: Plan;
  result: RunResult;
  runs: number;
}

/**
 * A smaller plan that breaks the same promise: with fewer faults, callers, jobs and workers, and as little of
 * the rest as can be. Whatever is left out leaves the chances of the rest as they were.
 */
export async function shrink(plan: Plan, result: RunResult): Promise<Shrunk> {
  const best: Shrunk = { plan, result, runs: 0 };
  let isSmaller = true;
  while (isSmaller) {
    isSmaller = false;
    for (const smaller of candidates(best.plan)) {
      if (best.runs >= MOST_RUNS) return best;
      best.runs += 1;
      const again = await simulate(smaller);
      if (again.violation?.promise !== result.violation?.promise) continue;
      best.plan = smaller;
      best.result = again;
      isSmaller = true;
      break;
    }
  }
  return best;
}

function* candidates(plan: Plan): Generator<Plan> {
  for (const list of ['faults', 'batches', 'callers', 'jobs'] as const) {
    for (const left of without<unknown>(plan[list])) yield { ...plan, [list]: left };
  }
  for (const workers of without(plan.workers)) {
    // The jobs of a pool without workers would wait for ever.
    if (pools(workers) === pools(plan.workers)) yield { ...plan, workers };
  }
  const ends = plan.faults.map((fault) => fault.at + ('ms' in fault ? fault.ms : 0));
  const last =
    Math.max(0, ...ends, ...[...plan.jobs, ...plan.callers, ...plan.batches].map(({ at }) => at)) + 1000;
  if (last < plan.troubleEndsMs) yield { ...plan, troubleEndsMs: last };
  for (const rate of ['engineTrouble', 'httpLoss', 'commitMs', 'alarmLateMs'] as const) {
    if (plan[rate] > 0) yield { ...plan, [rate]: 0 };
  }
}

function pools(workers: readonly WorkerPlan[]): string {
  return String([...new Set(workers.map(({ configId }) => configId))].sort());
}

/** The list without its halves, quarters and so on down to single entries. */
function* without<T>(list: readonly T[]): Generator<T[]> {
  for (let size = Math.ceil(list.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < list.length; at += size) yield [...list.slice(0, at), ...list.slice(at + size)];
  }
}
