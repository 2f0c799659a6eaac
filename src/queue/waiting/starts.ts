import type { PoolStart } from '../../fleet/rpc.ts';
import type { Core } from '../state/state.ts';
import { rejectOverdue, waitingLines } from './admission.ts';

/**
 * Says whether to ask the fleet object about starts although the queue has nothing to report: callers wait for a start,
 * or the next caller would be rejected because there is none.
 */
export function awaitsStart(core: Core): boolean {
  const starts = core.starts.all();
  if (starts.some(({ state }) => state === 'stopped')) return true;
  return starts.length > 0 && waitingLines(core).some(({ start }) => start !== null);
}

/**
 * Takes the fleet object's report of the pools that the scheduler starts workers for: some callers need not wait any
 * longer.
 */
export function hearStarts(core: Core, starts: readonly PoolStart[]): void {
  if (!core.starts.replace(starts)) return;
  core.waiting.line.nextRejection.forget();
  rejectOverdue(core);
}
