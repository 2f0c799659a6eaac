/** A job as the platform knows it. */
export interface WorldJob {
  id: string;
  input: unknown;
  status: 'queued' | 'given' | 'done' | 'stopped';
  gives: number;
  /** Pieces of the newest attempt. */
  pieces: unknown[];
  output: unknown[] | null;
  error: unknown;
  namedAtMs: number;
}

/** What the engine makes of a job: whole, or event by event. */
export function wholeOf(jobId: string, streams: boolean): string {
  return streams ? eventsOf(jobId).join('') : `${jobId} whole`;
}

const DONE = 'data: [DONE]\n\n';

export function eventsOf(jobId: string): string[] {
  const count = 1 + (Number(jobId.slice(3)) % 9);
  const events = Array.from({ length: count }, (_, index) => {
    const finish_reason = index === count - 1 ? 'stop' : null;
    return `data: ${JSON.stringify({ choices: [{ index: 0, text: `${jobId}.${index} `, finish_reason }] })}\n\n`;
  });
  return [...events, DONE];
}
