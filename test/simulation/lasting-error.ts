import type { Failure, JobView } from '../../src/protocol/index.ts';
import type { JobColumns } from './disk.ts';

/**
 * Returns the error of a settled job without what may change yet: the worker of a job that was ended while it ran
 * reports what it used once it has stopped.
 */
export function lastingError({ state, error }: Pick<JobView, 'state' | 'error'>): Failure | null {
  if (error === null || (state !== 'cancelled' && state !== 'expired')) return error;
  const { usage: _, ...lasting } = error;
  return lasting;
}

/** Returns the same of a row, as JSON. */
export function lastingErrorIn({ state, error }: JobColumns): string {
  const told = error === null ? null : (JSON.parse(error) as Failure);
  return JSON.stringify(lastingError({ state: state as JobView['state'], error: told }));
}
