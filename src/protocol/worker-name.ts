/**
 * Returns people's name for a worker, the same wherever a worker is shown or spoken of: its id, or, for a machine that
 * the scheduler launched, the launch's own id, with which the long id ends.
 */
export function workerName(workerId: string): string {
  return /^wv-[a-z0-9]+-.+-([a-z0-9]{10})$/.exec(workerId)?.[1] ?? workerId;
}
