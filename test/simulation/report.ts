import type { Plan } from './plan.ts';
import type { RunResult } from './simulation.ts';

/** Events of a trace that are shown: what came just before. */
const LAST_LINES = 60;

/** What went wrong, in what setting, and what came before it. */
export function failureReport(plan: Plan, result: RunResult): string {
  const { workers, jobs, callers, batches, faults, ...rest } = plan;
  return [
    `seed ${plan.seed} breaks the promise "${result.violation?.promise}":`,
    `  ${result.violation?.message}`,
    `options: ${JSON.stringify(rest)}`,
    ...workers.map((worker) => `worker:  ${JSON.stringify(worker)}`),
    ...jobs.map((job) => `job:     ${JSON.stringify(job)}`),
    ...callers.map((caller) => `caller:  ${JSON.stringify(caller)}`),
    ...batches.map((batch) => `batch:   ${JSON.stringify(batch)}`),
    ...faults.map((fault) => `fault:   ${JSON.stringify(fault)}`),
    `the last events of ${result.lines.length} (seconds since the start):`,
    ...result.lines.slice(-LAST_LINES),
  ].join('\n');
}
