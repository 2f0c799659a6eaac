import { setTimeout as sleep } from 'node:timers/promises';
import { tearDown } from '../../test/support/road.ts';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { descendantsOf, residentMegabytes } from '../machine.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace, startRoad, WARM_UP_REQUESTS, warmUp } from '../road.ts';
import { sum } from '../statistics.ts';

const STREAMS = 256;
/** A process that has just started is still giving memory back, ms. */
const SETTLING_MS = 3000;

/** P5: resident memory of a road of its own, idle, while 256 streams run, and after 20,000 short requests. */
export async function memory(effort: Effort): Promise<Figure[]> {
  const road = await startRoad();
  await sleep(scaled(SETTLING_MS, effort));
  const idle = measure(road);
  await pace(road.engineUrl, 10);
  const peak = { ...idle };
  const look = setInterval(() => {
    const now = measure(road);
    peak.queue = Math.max(peak.queue, now.queue);
    peak.worker = Math.max(peak.worker, now.worker);
  }, 200);
  const arrivals = { kind: 'closed', callers: STREAMS, requests: STREAMS } as const;
  await runLoad({ url: road.queueUrl, arrivals, tokens: scaled(500, effort) });
  clearInterval(look);
  await warmUp(road, effort);
  const after = measure(road);
  await tearDown();
  const shared = { group: 'P5', unit: 'MB' };
  return [
    { ...shared, name: 'resident memory, worker, idle', goal: 80, rounds: [idle.worker] },
    { ...shared, name: `resident memory, worker, ${STREAMS} streams`, goal: 140, rounds: [peak.worker] },
    { ...shared, name: 'resident memory, queue, idle', goal: 100, rounds: [idle.queue] },
    { ...shared, name: `resident memory, queue, ${STREAMS} streams`, goal: 200, rounds: [peak.queue] },
    {
      ...shared,
      name: `resident memory, queue, after ${WARM_UP_REQUESTS.toLocaleString('en')} short requests`,
      goal: 200,
      rounds: [after.queue],
    },
  ];
}

/** Returns the memory of all processes of the queue, of which an earlier version has two, and of the worker. */
function measure({ roots: [queue], pids: { worker } }: BenchRoad) {
  const ofQueue = [queue!, ...descendantsOf(queue!)];
  return { queue: sum(ofQueue.map(residentMegabytes)), worker: residentMegabytes(worker) };
}
