import { startQueue, tearDown } from '../../test/support/road.ts';
import { runDurable, type Side } from '../durable/index.ts';
import { hasNats, startNats } from '../durable/nats.ts';
import type { PeerServer } from '../durable/peer-server.ts';
import { hasRedis, startRedis } from '../durable/redis.ts';
import { type Effort, scaled } from '../effort.ts';
import { processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { workerdOf } from '../road.ts';

const LOAD = { jobs: 4800, inFlight: 64, bytes: 1000 };

const WAYS = ['socket', 'http'] as const;
type Way = (typeof WAYS)[number];
const WAY_NAMES = { socket: 'over one socket', http: 'in arrays, one long poll a result' };

interface Peer {
  side: Side;
  name: string;
  isThere(): boolean;
  start(): Promise<PeerServer>;
}
const PEERS: Peer[] = [
  { side: 'bullmq', name: 'BullMQ', isThere: hasRedis, start: startRedis },
  { side: 'jetstream', name: 'NATS JetStream', isThere: hasNats, start: startNats },
];

interface Rounds {
  rate: Record<Way, number[]>;
  processor: Record<Way, number[]>;
  peers: { name: string; rate: number[] }[];
}

/**
 * P3: durable jobs a second, their results known to the submitter, against BullMQ on Redis and against JetStream in
 * the same run. Everyone's writes are synced to disk before they are acknowledged.
 */
export async function durableJobs(effort: Effort): Promise<Figure[]> {
  const load = { ...LOAD, jobs: Math.ceil(scaled(LOAD.jobs, effort) / LOAD.inFlight) * LOAD.inFlight };
  const queue = await startQueue();
  const pid = workerdOf(queue);
  const there = PEERS.filter(({ isThere }) => isThere());
  for (const { name } of PEERS.filter((peer) => !there.includes(peer))) {
    console.log(`P3   ${name} is not installed, so nothing is compared with it: npm run bench:setup`);
  }
  const peers = await Promise.all(there.map(async (peer) => ({ ...peer, server: await peer.start() })));
  const seen: Rounds = {
    rate: { socket: [], http: [] },
    processor: { socket: [], http: [] },
    peers: peers.map(({ name }) => ({ name, rate: [] })),
  };
  try {
    for (const way of WAYS) await runDurable('ours', { ...load, url: queue.url, way });
    for (let round = 0; round < effort.rounds; round++) {
      for (const [n, { side, server }] of peers.entries()) {
        seen.peers[n]!.rate.push(await runDurable(side, { ...load, url: server.url }));
      }
      for (const way of WAYS) {
        const before = processorMs(pid);
        seen.rate[way].push(await runDurable('ours', { ...load, url: queue.url, way }));
        seen.processor[way].push(((processorMs(pid) - before) / load.jobs) * 1000);
      }
    }
  } finally {
    for (const { server } of peers) server.stop();
    await tearDown();
  }
  return WAYS.flatMap((way) => figuresOf(way, seen));
}

function figuresOf(way: Way, { rate, processor, peers }: Rounds): Figure[] {
  const how = WAY_NAMES[way];
  const shared = { group: 'P3', goal: null };
  return [
    { ...shared, name: `durable jobs, ${how}`, unit: '/s', rounds: rate[way] },
    { ...shared, name: `processor of the queue a durable job, ${how}`, unit: 'µs', rounds: processor[way] },
    ...peers.map((peer) => ({
      ...shared,
      name: `durable jobs/s ÷ ${peer.name}, fsync always, ${how}`,
      unit: '×',
      // Of what a submitter of many jobs is to use.
      ...(peer.name === 'BullMQ' && way === 'socket' ? { goal: 1.5, atLeast: true } : {}),
      rounds: rate[way].map((own, round) => own / peer.rate[round]!),
    })),
  ];
}
