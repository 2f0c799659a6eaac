import * as z from 'zod';
import { withFullStop } from './text.ts';

/**
 * The reasons why a job, a line of a batch or the jobs of a pool wait.
 *
 * - `retry`: the last attempt failed, and the job is tried again later
 * - `limit`: the job's token has reached a limit or a budget
 * - `queue_full`: the queue takes no more lines of the batch at the moment
 * - `deadline`: no worker can meet the job's deadline at its present load
 * - `busy`: all slots of the pool are busy
 * - `batch_room`: batch work leaves the last slots free for requests
 * - `turn`: a slot is free, and it is given out in a moment
 * - `paused`: the workers take no jobs for now
 * - `asleep`: the engine sleeps while another one has its GPU
 * - `draining`: the workers only finish what they run
 * - `start`: a worker starts
 * - `launch`: the scheduler launches a worker
 * - `batch_start`: there is too little work to launch a worker for
 * - `held_back`: the scheduler launches no worker: paused, out of budget, failed starts, a max of 0
 * - `no_launcher`: a machine is ordered, and no launcher is there that makes one
 * - `no_worker`: the pool has no worker, and nothing starts one
 * - `unserved_model`: no worker of the pool serves the job's model
 */
const WAITING_CODES = [
  ...(['retry', 'limit', 'queue_full', 'deadline', 'busy', 'batch_room', 'turn'] as const),
  ...(['paused', 'asleep', 'draining', 'start', 'launch', 'batch_start', 'held_back'] as const),
  ...(['no_launcher', 'no_worker', 'unserved_model'] as const),
];

/** The reason why something waits, until when, and what can be done. */
export const Waiting = z.object({
  code: z.enum(WAITING_CODES),
  /** A clause such as "all 4 slots are busy: 3.1/s come, 2.0/s end". */
  for: z.string(),
  /** The ISO time at which the wait ends, or is expected to, or null where nobody knows. */
  until: z.string().nullable(),
  /** A sentence that says what to do, or null where nothing has to be done. */
  advice: z.string().nullable(),
});
export type Waiting = z.infer<typeof Waiting>;

/** Makes a `Waiting`. @param until epoch ms */
export function waitsFor(
  code: Waiting['code'],
  clause: string,
  { until = null, advice = null }: { until?: number | null; advice?: string | null } = {},
): Waiting {
  return {
    code,
    for: clause.replace(/\.$/, ''),
    until: until === null ? null : new Date(until).toISOString(),
    advice,
  };
}

/** Writes a `Waiting` as sentences for people. @param timeOf says a time */
export function waitingText({ for: clause, until, advice }: Waiting, timeOf: (at: number) => string): string {
  const when = until === null ? '' : ` (until ${timeOf(Date.parse(until))})`;
  return `${withFullStop(`${clause}${when}`)}${advice === null ? '' : ` ${advice}`}`;
}
