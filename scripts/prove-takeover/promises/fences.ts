import type { FinalState } from '../final-state.ts';
import type { Operation } from '../operations.ts';
import { idOf, ms, readsByJob } from './lookups.ts';

/** Finds jobs of which an attempt has no higher fence than the one before, or the end not that of the last attempt. */
export function fencesOfJobs({ jobs }: FinalState): string[] {
  const wrong: string[] = [];
  const owners = new Map<number, string>();
  for (const [id, job] of jobs) {
    let last = 0;
    for (const { step, fence } of job?.steps ?? []) {
      if (step === 'dispatched') {
        if (fence <= last) wrong.push(`${id}: fence ${fence} was given after ${last}`);
        if (owners.has(fence)) wrong.push(`fence ${fence} was given to ${owners.get(fence)} and ${id}`);
        owners.set(fence, id);
        last = fence;
      } else if (step === 'settled' && fence !== last) {
        wrong.push(`${id}: settled by fence ${fence}, while the newest attempt had ${last}`);
      }
    }
  }
  return wrong;
}

/** Finds fences, of whichever job, that were given later than a client had seen a higher one. */
export function fencesOfQueue(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const wrong: string[] = [];
  const seen = operations
    .flatMap(({ call, end }) =>
      call.kind === 'read' && end?.type === 'ok' && end.job ? [{ at: end.at, fence: end.job.fence }] : [],
    )
    .sort((a, b) => a.at - b.at);
  const firstSubmits = new Map<string, number>();
  for (const operation of operations) {
    const id = idOf(operation);
    if (id !== null && !firstSubmits.has(id)) firstSubmits.set(id, operation.from);
  }
  let highest = 0;
  let next = 0;
  for (const [id, from] of [...firstSubmits].sort(([, a], [, b]) => a - b)) {
    for (; next < seen.length && seen[next]!.at < from; next += 1)
      highest = Math.max(highest, seen[next]!.fence);
    const first = jobs.get(id)?.steps.find(({ step }) => step === 'dispatched');
    if (first && first.fence <= highest)
      wrong.push(`${id}, submitted at ${ms(from)}: fence ${first.fence}, after ${highest} had been seen`);
  }
  for (const [id, reads] of readsByJob(operations)) {
    const falling = reads.find(({ from, job }) =>
      reads.some((earlier) => earlier.at < from && earlier.job.fence > job.fence),
    );
    if (falling) wrong.push(`${id}: fence ${falling.job.fence} was read after a higher one`);
  }
  return wrong;
}
