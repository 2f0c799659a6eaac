import { startBare } from '../bare/index.ts';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace } from '../road.ts';
import { processorOf } from './streams.ts';

const REQUESTS = 2000;
const CALLERS = 64;

/** P1c: processor time of a streamed request of one token, against a bare object call in the same run. */
export async function requestCost(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  await pace(road.engineUrl, 0);
  const bare = await startBare();
  const requests = scaled(REQUESTS, effort);
  const ask = (url: string) =>
    runLoad({ url, arrivals: { kind: 'closed', callers: CALLERS, requests }, tokens: 1 });
  const workerd: number[] = [];
  const worker: number[] = [];
  const absolute: number[] = [];
  try {
    await ask(bare.url);
    await ask(road.queueUrl);
    for (let round = 0; round < effort.rounds; round++) {
      const before = processorMs(bare.pid);
      await ask(bare.url);
      const base = processorMs(bare.pid) - before;
      const used = processorOf(road);
      await ask(road.queueUrl);
      const spent = processorOf(road, used);
      workerd.push(spent.workerd / base);
      worker.push(spent.worker / spent.engine);
      absolute.push((spent.workerd / requests) * 1000);
    }
  } finally {
    bare.stop();
  }
  const shared = { group: 'P1c', unit: '×' };
  const many = `${CALLERS} side by side`;
  return [
    {
      ...shared,
      name: `processor a request, workerd ÷ bare object call, ${many}`,
      goal: 2.5,
      rounds: workerd,
    },
    { ...shared, name: `processor a request, worker ÷ simulator, ${many}`, goal: 1.5, rounds: worker },
    { ...shared, name: `processor a request, workerd, ${many}`, unit: 'µs', goal: null, rounds: absolute },
  ];
}
