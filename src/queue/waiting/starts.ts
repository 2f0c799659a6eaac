import type { PoolStart } from '../../fleet/rpc.ts';
import type { Core } from '../state/state.ts';
import { rejectOverdue, waitingLines } from './admission.ts';

/**
 * Whether to ask the fleet object about starts though there is nothing to tell it: callers wait for a start, or the
 * next caller would be turned away because there is none.
 */
export function awaitsStart(core: Core): boolean {
  const starts = core.starts.all();
  if (starts.some(({ state }) => state === 'stopped')) return true;
  return starts.length > 0 && waitingLines(core).some(({ start }) => start !== null);
}

/** The fleet object reports the pools that the scheduler starts workers for: some callers need not wait any longer. */
export function hearStarts(core: Core, starts: readonly PoolStart[]): void {
  if (!core.starts.replace(starts)) return;
  core.waiting.line.nextRejection.forget();
  rejectOverdue(core);
}
