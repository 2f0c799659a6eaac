import type { WaitingLineView } from '../../queue/rpc.ts';

/** How old the places may be that callers are told, ms. */
const FRESH_MS = 900;

/** Callers make queues by naming them, so the gateway remembers a bounded number. */
const MOST_QUEUES = 1000;

/** What each queue said last; data alone, which requests may share. */
const known = new Map<string, { askedAt: number; places: ReadonlyMap<string, string> }>();

/**
 * What the gateway tells a waiting caller: its place in the line for its model, or how far the start of a worker is. It
 * asks the queue once a second for all callers of this gateway together.
 * @param ask the jobs that wait, as `QueueRpc.waitingLines`
 * @param now epoch ms
 */
export async function waitingPlace(
  queueId: string,
  jobId: string,
  ask: () => Promise<WaitingLineView[]>,
  now: () => number,
): Promise<string> {
  const before = known.get(queueId);
  if (before === undefined || now() - before.askedAt >= FRESH_MS) {
    const places = before?.places ?? new Map();
    if (known.size >= MOST_QUEUES) known.clear();
    // Callers that ask meanwhile get the previous answer.
    known.set(queueId, { askedAt: now(), places });
    // A queue that restarts answers the next time.
    const lines = await ask().catch(() => null);
    if (lines !== null) known.set(queueId, { askedAt: now(), places: placesIn(lines) });
  }
  return known.get(queueId)?.places.get(jobId) ?? 'waiting';
}

function placesIn(lines: WaitingLineView[]): Map<string, string> {
  return new Map(
    lines.flatMap(({ job_ids, start }) =>
      job_ids.map((id, index) => {
        const place = `place ${index + 1} of ${job_ids.length}`;
        return [id, start === null ? `waiting, ${place}` : `${start}; ${place}`] as const;
      }),
    ),
  );
}
