import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import type { LoadPlan } from '../load/plan.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace } from '../road.ts';
import { median, quantile } from '../statistics.ts';

interface Load {
  name: string;
  interTokenMs: number;
  tokens: number;
  arrivals: LoadPlan['arrivals'];
  goals: { p50: number; p99: number | null };
}

const LOADS: Load[] = [
  {
    name: 'one request after another',
    interTokenMs: 0,
    tokens: 1,
    arrivals: { kind: 'closed', callers: 1, requests: 300 },
    goals: { p50: 0.7, p99: 2 },
  },
  {
    name: '60 arrivals a second of 32 tokens at 10 ms',
    interTokenMs: 10,
    tokens: 32,
    arrivals: { kind: 'open', ratePerSecond: 60, requests: 600 },
    goals: { p50: 1.4, p99: 6 },
  },
  {
    name: '64 requests at one moment',
    interTokenMs: 10,
    tokens: 8,
    arrivals: { kind: 'closed', callers: 64, requests: 64 },
    goals: { p50: 20, p99: null },
  },
  {
    name: '256 requests at one moment',
    interTokenMs: 10,
    tokens: 8,
    arrivals: { kind: 'closed', callers: 256, requests: 256 },
    goals: { p50: 100, p99: null },
  },
];

/** P1: what the road adds to the time until the first token, direct and road in turns. */
export async function firstToken(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const load of LOADS) {
    await pace(road.engineUrl, load.interTokenMs);
    const { callers = 1 } = load.arrivals as { callers?: number };
    const requests = Math.max(callers, scaled(load.arrivals.requests, effort));
    const arrivals = { ...load.arrivals, requests };
    const ask = (url: string) => runLoad({ url, arrivals, tokens: load.tokens });
    await ask(road.queueUrl);
    const added: { p50: number[]; p99: number[] } = { p50: [], p99: [] };
    for (let round = 0; round < effort.rounds; round++) {
      const direct = (await ask(road.engineUrl)).firstMs;
      const through = (await ask(road.queueUrl)).firstMs;
      added.p50.push(median(through) - median(direct));
      added.p99.push(quantile(through, 0.99) - quantile(direct, 0.99));
    }
    const shared = { group: 'P1', unit: 'ms' };
    figures.push({
      ...shared,
      name: `first token added, ${load.name}, p50`,
      goal: load.goals.p50,
      rounds: added.p50,
    });
    if (load.goals.p99 === null) continue;
    figures.push({
      ...shared,
      name: `first token added, ${load.name}, p99`,
      goal: load.goals.p99,
      rounds: added.p99,
    });
  }
  return figures;
}
