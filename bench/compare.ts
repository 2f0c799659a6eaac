import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { type ServedRoad, serveRoad } from './compare/index.ts';
import { runLoad } from './load/index.ts';
import type { LoadPlan } from './load/plan.ts';
import { machineState, noiseSince } from './machine.ts';
import { noiseText } from './report.ts';
import { pace, warmUp } from './road.ts';
import { processorOf } from './scenarios/streams.ts';
import { median, quantile } from './statistics.ts';

/**
 * `npm run bench:compare -- ../other`: whether this checkout became dearer or cheaper than another one. The roads of both
 * run at the same time and take turns, one short load each, so that what else the machine does concerns both; what is
 * told is the ratio of such a pair.
 */

const given = new Command('bench:compare')
  .description('measures this checkout against another one, in turns on the same machine')
  .argument('<other>', 'another checkout, with its node_modules')
  .option('--rounds <count>', 'pairs of both', '30')
  .parse();
const { rounds } = given.opts<{ rounds: string }>();

interface Load {
  name: string;
  interTokenMs: number;
  tokens: number;
  arrivals: LoadPlan['arrivals'];
  /** What processor time is divided by. */
  unit: 'request' | 'token';
}

const LOADS: Load[] = [
  {
    name: 'short requests, 64 side by side',
    interTokenMs: 0,
    tokens: 1,
    arrivals: { kind: 'closed', callers: 64, requests: 400 },
    unit: 'request',
  },
  {
    name: '64 requests at one moment',
    interTokenMs: 10,
    tokens: 8,
    arrivals: { kind: 'closed', callers: 64, requests: 64 },
    unit: 'request',
  },
  {
    name: '64 streams of a token each 10 ms',
    interTokenMs: 10,
    tokens: 60,
    arrivals: { kind: 'closed', callers: 64, requests: 64 },
    unit: 'token',
  },
];

/** Figures of one load on one road, by their names. */
type Measured = Record<string, number>;

const before = machineState();
const own = fileURLToPath(new URL('..', import.meta.url));
const roads: ServedRoad[] = [];
try {
  for (const checkout of [resolve(given.args[0]!), own]) roads.push(await serveRoad(checkout));
  for (const road of roads) await warmUp(road, { rounds: 1, share: 1 });
  for (const load of LOADS) await compare(load);
} finally {
  await Promise.all(roads.map((road) => road.stop()));
}
process.stdout.write(`${noiseText(noiseSince(before))}\n`);

async function compare(load: Load): Promise<void> {
  for (const road of roads) {
    await pace(road.engineUrl, load.interTokenMs);
    await measure(road, load);
  }
  const pairs: [other: Measured, own: Measured][] = [];
  for (let round = 0; round < Number(rounds); round++) {
    const measured: Measured[] = [];
    // Neither is always the second.
    for (const index of round % 2 === 0 ? [0, 1] : [1, 0])
      measured[index] = await measure(roads[index]!, load);
    pairs.push([measured[0]!, measured[1]!]);
  }
  process.stdout.write(`\n${load.name}\n`);
  for (const name of Object.keys(pairs[0]![0])) print(name, pairs);
}

async function measure(road: ServedRoad, { arrivals, tokens, unit }: Load): Promise<Measured> {
  const used = processorOf(road);
  const { firstMs, gapMs } = await runLoad({ url: road.queueUrl, arrivals, tokens });
  const spent = processorOf(road, used);
  const units = arrivals.requests * (unit === 'token' ? tokens : 1);
  return {
    [`workerd, µs a ${unit}`]: (spent.workerd / units) * 1000,
    [`worker, µs a ${unit}`]: (spent.worker / units) * 1000,
    'first token, p50, ms': median(firstMs),
    ...(tokens > 1 && { 'between tokens, p99, ms': gapMs.p99 }),
  };
}

function print(name: string, pairs: [Measured, Measured][]): void {
  const ratios = pairs.map(([other, own]) => own[name]! / other[name]!);
  const [others, owns] = [0, 1].map((index) => median(pairs.map((pair) => pair[index]![name]!)).toFixed(1));
  const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(2));
  process.stdout.write(`  ${name.padEnd(26)} ${others} → ${owns}   × ${middle} (quartiles ${low}–${high})\n`);
}
