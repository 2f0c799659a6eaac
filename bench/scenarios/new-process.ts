import { tearDown } from '../../test/support/road.ts';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { processorOf } from '../machine.ts';
import type { Figure } from '../report.ts';
import { pace, startRoad } from '../road.ts';
import { median } from '../statistics.ts';

const REQUESTS = 2000;

/** P4: the first requests of a queue and a worker that have just started, one after another; new processes for each round. */
export async function firstRequests(effort: Effort): Promise<Figure[]> {
  const requests = scaled(REQUESTS, effort);
  const added: number[] = [];
  const processor: { queue: number[]; worker: number[] } = { queue: [], worker: [] };
  for (let round = 0; round < effort.rounds; round++) {
    const road = await startRoad();
    await pace(road.engineUrl, 0);
    const ask = async (url: string) => {
      const { firstMs } = await runLoad({
        url,
        arrivals: { kind: 'closed', callers: 1, requests },
        tokens: 1,
      });
      return median(firstMs);
    };
    // The engine is asked first: it has compiled its own code by the time that the road is new.
    const direct = await ask(road.engineUrl);
    const before = processorOf(road.pids);
    added.push((await ask(road.queueUrl)) - direct);
    const spent = processorOf(road.pids, before);
    for (const which of ['queue', 'worker'] as const) {
      processor[which].push((spent[which] * 1000) / requests);
    }
    await tearDown();
  }
  const first = `the first ${REQUESTS.toLocaleString('en')} requests of new processes, one after another`;
  const shared = { group: 'P4', goal: null };
  return [
    { ...shared, name: `first token added, ${first}, p50`, unit: 'ms', goal: 2, rounds: added },
    { ...shared, name: `processor a request, queue, ${first}`, unit: 'µs', rounds: processor.queue },
    { ...shared, name: `processor a request, worker, ${first}`, unit: 'µs', rounds: processor.worker },
  ];
}
