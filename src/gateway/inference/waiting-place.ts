import type { WaitingLineView } from '../../queue/rpc.ts';

/** The places that callers are told may be this many ms old. */
const FRESH_MS = 900;

/** The gateway remembers at most this many queues, since callers make queues by naming them. */
const MOST_QUEUES = 1000;

/** The newest answer of each queue; it is data alone, which requests may share. */
const known = new Map<string, { askedAt: number; places: ReadonlyMap<string, string> }>();

/**
 * Returns what the gateway tells a waiting caller: its place in the line for its model, or how far the start of a
 * worker is. It asks the queue once a second for all callers of this gateway together.
 * @param ask returns the jobs that wait, as `QueueRpc.waitingLines`
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
    // A queue that restarts now answers the next call.
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
