/**
 * What people call a worker: its id, but of a machine that the scheduler launched the launch's own id, with which its
 * long name ends. The same wherever a worker is shown or spoken of.
 */
export function workerName(workerId: string): string {
  return /^wv-[a-z0-9]+-.+-([a-z0-9]{10})$/.exec(workerId)?.[1] ?? workerId;
}
