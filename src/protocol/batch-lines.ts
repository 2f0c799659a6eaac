/** The endpoint of a batch whose lines may each ask for another route. OpenAI's API has no such thing. */
export const ANY_ENDPOINT = '*';

/** Returns the route that a line of a batch's input asks for, or null if the text is no such line. */
export function urlOfLine(text: string): string | null {
  try {
    // The line may begin with a byte order mark, which `trim` removes too.
    const { url } = JSON.parse(text.trim()) as { url?: unknown };
    return typeof url === 'string' ? url : null;
  } catch {
    return null;
  }
}

/** Makes the id of the job of a line. @param line from 1 */
export function lineJobId(batchId: string, line: number): string {
  return `${batchId}.${line}`;
}

/** Returns the batch and the line that a job belongs to, or null if it belongs to none. */
export function lineOfJob(jobId: string): { batchId: string; line: number } | null {
  const [, batchId, line] = /^(batch_\w+)\.(\d+)$/.exec(jobId) ?? [];
  return batchId === undefined ? null : { batchId, line: Number(line) };
}

/** Returns how many slots batch work leaves free: a tenth, at least one; none where there is only one. */
export function reservedSlots(usable: number): number {
  return usable > 1 ? Math.ceil(usable / 10) : 0;
}
