import { startQueue, tearDown } from '../../test/support/road.ts';
import { runDurable } from '../durable/index.ts';
import { startRedis } from '../durable/redis.ts';
import { processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { workerdOf } from '../road.ts';
import { hasPeers } from '../setup.ts';

const LOAD = { jobs: 4800, inFlight: 64, bytes: 1000 };

/** P3: durable jobs a second, their results known to the submitter, against BullMQ on Redis in the same run. */
export async function durableJobs(rounds: number): Promise<Figure[]> {
  const queue = await startQueue();
  const redis = hasPeers() ? await startRedis() : null;
  if (!redis)
    console.log('P3   without Redis and BullMQ there is nothing to compare with: npm run bench:setup');
  const pid = workerdOf(queue);
  const seen = { http: noRounds(), socket: noRounds() };
  for (const way of WAYS) await runDurable('ours', { ...LOAD, url: queue.url, way });
  for (let round = 0; round < rounds; round++) {
    const peer = redis ? await runDurable('bullmq', { ...LOAD, url: redis.url }) : null;
    for (const way of WAYS) {
      const before = processorMs(pid);
      const rate = await runDurable('ours', { ...LOAD, url: queue.url, way });
      seen[way].processor.push(((processorMs(pid) - before) / LOAD.jobs) * 1000);
      seen[way].rate.push(rate);
      if (peer !== null) seen[way].ratio.push(rate / peer);
    }
  }
  redis?.stop();
  await tearDown();
  return WAYS.flatMap((way) => figuresOf(way, seen[way]));
}

const WAYS = ['socket', 'http'] as const;
const NAMES = { socket: 'over one socket', http: 'in arrays, one long poll a result' };

type Rounds = Record<'rate' | 'processor' | 'ratio', number[]>;
const noRounds = (): Rounds => ({ rate: [], processor: [], ratio: [] });

function figuresOf(way: (typeof WAYS)[number], { rate, processor, ratio }: Rounds): Figure[] {
  const shared = { group: 'P3', goal: null };
  const how = NAMES[way];
  const figures: Figure[] = [
    { ...shared, name: `durable jobs, ${how}`, unit: '/s', rounds: rate },
    { ...shared, name: `processor of the queue a durable job, ${how}`, unit: 'µs', rounds: processor },
  ];
  if (ratio.length === 0) return figures;
  const goal = way === 'socket' ? { goal: 1.5, atLeast: true } : { goal: null };
  const name = `durable jobs/s ÷ BullMQ, fsync always, ${how}`;
  return [...figures, { ...shared, ...goal, name, unit: '×', rounds: ratio }];
}
