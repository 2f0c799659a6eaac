import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { pace, startRoad } from '../road.ts';

const CALLERS = 64;
const REQUESTS = 1500;

/** Measures what keeping requests costs: a queue that keeps all beside one that keeps none, in turns. */
export async function keptRequests(effort: Effort): Promise<Figure[]> {
  const roads = {
    off: await startRoad(CALLERS),
    all: await startRoad(CALLERS, undefined, { QUEUE_KEEP_REQUESTS: 'all' }),
  };
  const run = async (side: keyof typeof roads) => {
    const { queueUrl: url, pids } = roads[side];
    const requests = scaled(REQUESTS, effort);
    const before = processorMs(pids.queue);
    await runLoad({ url, arrivals: { kind: 'closed', callers: CALLERS, requests }, tokens: 1 });
    return ((processorMs(pids.queue) - before) * 1000) / requests;
  };
  const rounds = { off: [] as number[], all: [] as number[] };
  for (const side of ['off', 'all'] as const) {
    await pace(roads[side].engineUrl, 0);
    // Its first requests cost up to three times as much.
    await run(side);
    await run(side);
  }
  for (let round = 0; round < effort.rounds; round++)
    for (const side of ['off', 'all'] as const) rounds[side].push(await run(side));
  const of = 'processor a short request, queue';
  const shared = { group: 'keeping', goal: null };
  return [
    {
      ...shared,
      name: `${of}, all requests kept ÷ none, 64 side by side`,
      unit: '×',
      rounds: rounds.all.map((µs, round) => µs / rounds.off[round]!),
    },
    { ...shared, name: `${of}, all requests kept, 64 side by side`, unit: 'µs', rounds: rounds.all },
  ];
}
