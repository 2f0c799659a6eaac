import { startQueue, tearDown } from '../../test/support/road.ts';
import { type DurableRun, runDurable, type Side } from '../durable/index.ts';
import { hasNats, startNats } from '../durable/nats.ts';
import type { PeerServer } from '../durable/peer-server.ts';
import { hasRedis, startRedis } from '../durable/redis.ts';
import { type Effort, scaled } from '../effort.ts';
import type { Figure } from '../report.ts';
import { processOf } from '../road.ts';

const LOAD = { jobs: 6400, slots: 16, bytes: 1000 };
const IN_FLIGHT = [64, 256];

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

interface Measured {
  name: string;
  runs: DurableRun[];
}

/**
 * P3: durable jobs a second, their results known to the submitter, against BullMQ on Redis and against JetStream in
 * the same run, in turns. Each has a submitter and two workers in processes of their own, and syncs every write to
 * disk before it acknowledges it.
 */
export async function durableJobs(effort: Effort): Promise<Figure[]> {
  const jobs = Math.max(scaled(LOAD.jobs, effort), 2 * Math.max(...IN_FLIGHT));
  const queue = await startQueue();
  const there = PEERS.filter(({ isThere }) => isThere());
  for (const { name } of PEERS.filter((peer) => !there.includes(peer))) {
    console.log(`P3   ${name} is not installed, so nothing is compared with it: node bench/setup.ts`);
  }
  const servers: PeerServer[] = [];
  try {
    for (const { start } of there) servers.push(await start());
    const sides = [
      { side: 'ours' as Side, name: 'ours', url: queue.url, pid: processOf(queue) },
      ...there.map(({ side, name }, n) => ({ side, name, url: servers[n]!.url, pid: servers[n]!.pid })),
    ];
    const figures: Figure[] = [];
    for (const inFlight of IN_FLIGHT) {
      const measured: Measured[] = sides.map(({ name }) => ({ name, runs: [] }));
      // The first round is a rehearsal: V8 has not compiled anything of the queue yet.
      for (let round = -1; round < effort.rounds; round++) {
        for (const [n, { side, url, pid }] of sides.entries()) {
          const run = await runDurable(side, { ...LOAD, jobs, inFlight, url }, pid);
          if (round >= 0) measured[n]!.runs.push(run);
        }
      }
      figures.push(...figuresOf(inFlight, measured));
    }
    return figures;
  } finally {
    for (const server of servers) server.stop();
    await tearDown();
  }
}

function figuresOf(inFlight: number, measured: Measured[]): Figure[] {
  const [ours, ...peers] = measured;
  const shared = { group: 'P3', goal: null };
  const at = `${inFlight} in flight`;
  return [
    ...measured.flatMap(({ name, runs }) => [
      {
        ...shared,
        name: `durable jobs, ${name}, ${at}`,
        unit: '/s',
        rounds: runs.map((run) => run.jobsPerSecond),
      },
      {
        ...shared,
        name: `processor of the server a durable job, ${name}, ${at}`,
        unit: 'µs',
        rounds: runs.map((run) => run.server),
      },
      {
        ...shared,
        name: `processor of all processes a durable job, ${name}, ${at}`,
        unit: 'µs',
        rounds: runs.map((run) => run.all),
      },
    ]),
    ...peers.map(({ name, runs }) => ({
      ...shared,
      name: `durable jobs/s ÷ ${name}, fsync always, ${at}`,
      unit: '×',
      ...(name === 'BullMQ' && { goal: 1.3, atLeast: true }),
      rounds: runs.map((run, round) => ours!.runs[round]!.jobsPerSecond / run.jobsPerSecond),
    })),
  ];
}
