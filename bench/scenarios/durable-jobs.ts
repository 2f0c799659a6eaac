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
  const seen = { rate: [], processor: [], ratio: [] } as Record<'rate' | 'processor' | 'ratio', number[]>;
  await runDurable('ours', { ...LOAD, url: queue.url });
  for (let round = 0; round < rounds; round++) {
    const peer = redis ? await runDurable('bullmq', { ...LOAD, url: redis.url }) : null;
    const before = processorMs(pid);
    const rate = await runDurable('ours', { ...LOAD, url: queue.url });
    seen.processor.push(((processorMs(pid) - before) / LOAD.jobs) * 1000);
    seen.rate.push(rate);
    if (peer !== null) seen.ratio.push(rate / peer);
  }
  redis?.stop();
  await tearDown();
  const shared = { group: 'P3', goal: null };
  return [
    {
      ...shared,
      name: 'durable jobs, submitted in arrays, one long poll a result',
      unit: '/s',
      rounds: seen.rate,
    },
    { ...shared, name: 'processor of the queue a durable job', unit: 'µs', rounds: seen.processor },
    ...(redis
      ? [
          {
            ...shared,
            name: 'durable jobs/s ÷ BullMQ, fsync always',
            unit: '×',
            goal: 1.5,
            atLeast: true,
            rounds: seen.ratio,
          },
        ]
      : []),
  ];
}
