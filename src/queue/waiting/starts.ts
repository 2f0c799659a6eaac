import type { PoolStart } from '../../fleet/rpc.ts';
import type { Core } from '../state/state.ts';
import { rejectOverdue, waitingLines } from './admission.ts';

/** Whether callers wait for a worker that the scheduler starts: the fleet object then reports on these starts. */
export function awaitsStart(core: Core): boolean {
  return core.starts.all().length > 0 && waitingLines(core).some(({ start }) => start !== null);
}

/** The fleet object reports the pools that the scheduler starts workers for: some callers need not wait any longer. */
export function hearStarts(core: Core, starts: readonly PoolStart[]): void {
  if (!core.starts.replace(starts)) return;
  core.waiting.line.nextRejection.forget();
  rejectOverdue(core);
}
