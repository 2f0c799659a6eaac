import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace } from '../road.ts';
import { median } from '../statistics.ts';

interface Load {
  name: string;
  interTokenMs: number;
  tokens: number;
  /** Arrivals a second to begin with. */
  from: number;
}

const LOADS: Load[] = [
  { name: 'short requests', interTokenMs: 0, tokens: 1, from: 100 },
  { name: 'requests of 32 tokens at 10 ms', interTokenMs: 10, tokens: 32, from: 40 },
];
/** Each rate by the one before it. */
const RISE = 1.2;
/** A rate is held so long, s. */
const HELD_SECONDS = 5;
/** The road has bent where its median request waits longer for its first token, ms: idle it takes 2. */
const BENT_MS = 50;
const MOST_RATES = 20;

/** The figures of the road at one rate. */
interface Carried {
  ratePerSecond: number;
  firstMs: number;
  /** Processors that the queue kept busy. */
  queue: number;
}

/** Until it bends: arrivals at a rising rate, whatever is answered, and the last rate that the road kept up with. */
export async function untilItBends(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const load of LOADS) {
    await pace(road.engineUrl, load.interTokenMs);
    const knees: Carried[] = [];
    for (let round = 0; round < effort.rounds; round++) knees.push(await kneeOf(load, effort, road));
    const shared = { group: 'bends', goal: null };
    figures.push(
      {
        ...shared,
        name: `${load.name}, the last rate before it bends`,
        unit: '/s',
        rounds: knees.map(({ ratePerSecond }) => ratePerSecond),
      },
      {
        ...shared,
        name: `${load.name}, processors that the queue keeps busy there`,
        unit: '',
        rounds: knees.map(({ queue }) => queue),
      },
    );
  }
  return figures;
}

/** 0 a second where even the first rate was too much. */
async function kneeOf(load: Load, effort: Effort, road: BenchRoad): Promise<Carried> {
  let knee: Carried | null = null;
  let ratePerSecond = load.from;
  for (let step = 0; step < scaled(MOST_RATES, effort); step++, ratePerSecond *= RISE) {
    const carried = await carry(load, Math.round(ratePerSecond), effort, road).catch((error: Error) => {
      // A queue that is full refuses: it has bent before.
      if (knee !== null && error.message.includes('queue_full')) return null;
      throw error;
    });
    if (carried === null) return knee!;
    const said = `${load.name}, ${carried.ratePerSecond}/s: first token ${carried.firstMs.toFixed(1)} ms`;
    console.log(`     ${said}, queue ${carried.queue.toFixed(2)} processors`);
    if (carried.firstMs > BENT_MS) return knee ?? { ...carried, ratePerSecond: 0 };
    knee = carried;
  }
  return knee!;
}

async function carry(
  { tokens }: Load,
  ratePerSecond: number,
  effort: Effort,
  { queueUrl, pids }: BenchRoad,
): Promise<Carried> {
  const requests = scaled(ratePerSecond * HELD_SECONDS, effort);
  const before = processorMs(pids.queue);
  const arrivals = { kind: 'open', ratePerSecond, requests } as const;
  const { firstMs, durationMs } = await runLoad({ url: queueUrl, arrivals, tokens });
  const queue = (processorMs(pids.queue) - before) / durationMs;
  return { ratePerSecond, firstMs: median(firstMs), queue };
}
