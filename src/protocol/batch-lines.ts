/** The id of the job of a line. @param line from 1 */
export function lineJobId(batchId: string, line: number): string {
  return `${batchId}.${line}`;
}

/** The batch and the line that a job is of; null: of none. */
export function lineOfJob(jobId: string): { batchId: string; line: number } | null {
  const [, batchId, line] = /^(batch_\w+)\.(\d+)$/.exec(jobId) ?? [];
  return batchId === undefined ? null : { batchId, line: Number(line) };
}
