/** As the endpoint of a batch: each of its lines may ask for another route. OpenAI's API has no such thing. */
export const ANY_ENDPOINT = '*';

/** The route that a line of a batch's input asks for; null: it is no such line. */
export function urlOfLine(text: string): string | null {
  try {
    // It may begin with a byte order mark, which `trim` takes away too.
    const { url } = JSON.parse(text.trim()) as { url?: unknown };
    return typeof url === 'string' ? url : null;
  } catch {
    return null;
  }
}

/** The id of the job of a line. @param line from 1 */
export function lineJobId(batchId: string, line: number): string {
  return `${batchId}.${line}`;
}

/** The batch and the line that a job is of; null: of none. */
export function lineOfJob(jobId: string): { batchId: string; line: number } | null {
  const [, batchId, line] = /^(batch_\w+)\.(\d+)$/.exec(jobId) ?? [];
  return batchId === undefined ? null : { batchId, line: Number(line) };
}

/** Returns how many slots batch work leaves free: a tenth, at least one; none where there is only one. */
export function reservedSlots(usable: number): number {
  return usable > 1 ? Math.ceil(usable / 10) : 0;
}
