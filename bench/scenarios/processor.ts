import { type BareRoad, startBareRoad } from '../bare/index.ts';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import type { LoadPlan } from '../load/plan.ts';
import { processorOf } from '../machine.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace, warmUp } from '../road.ts';

interface Load {
  /** The unit by which the time is divided: a short request, or a token. */
  unit: 'a short request' | 'a token';
  name: string;
  interTokenMs: number;
  tokens: number;
  callers: number;
  requests: number;
  goals: { queue: number; worker: number | null };
}

const LOADS: Load[] = [
  {
    unit: 'a short request',
    name: '64 side by side',
    interTokenMs: 0,
    tokens: 1,
    callers: 64,
    requests: 2000,
    goals: { queue: 1.3, worker: null },
  },
  {
    unit: 'a token',
    name: '64 streams',
    interTokenMs: 10,
    tokens: 300,
    callers: 64,
    requests: 64,
    goals: { queue: 1.3, worker: 1.3 },
  },
];

/** P1c: processor time of the queue and worker against the leanest program of the same shape, in turns. */
export async function processorTime(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  const bare = await startBareRoad(road.engineUrl);
  try {
    await warmUp({ ...road, queueUrl: bare.url }, effort);
    const figures: Figure[] = [];
    for (const load of LOADS) figures.push(...(await measure(load, effort, road, bare)));
    return figures;
  } finally {
    bare.stop();
  }
}

async function measure(load: Load, effort: Effort, road: BenchRoad, bare: BareRoad): Promise<Figure[]> {
  await pace(road.engineUrl, load.interTokenMs);
  const isShort = load.unit === 'a short request';
  const requests = isShort ? scaled(load.requests, effort) : load.requests;
  const tokens = isShort ? load.tokens : scaled(load.tokens, effort);
  const arrivals: LoadPlan['arrivals'] = { kind: 'closed', callers: load.callers, requests };
  const side = async ({ url, pids }: { url: string; pids: BareRoad['pids'] }) => {
    const before = processorOf(pids);
    await runLoad({ url, arrivals, tokens });
    return processorOf(pids, before);
  };
  const ours = { url: road.queueUrl, pids: road.pids };
  await side(bare);
  await side(ours);
  const ratios: { queue: number[]; worker: number[] } = { queue: [], worker: [] };
  const absolute: { queue: number[]; worker: number[] } = { queue: [], worker: [] };
  for (let round = 0; round < effort.rounds; round++) {
    const base = await side(bare);
    const spent = await side(ours);
    for (const which of ['queue', 'worker'] as const) {
      ratios[which].push(spent[which] / base[which]);
      absolute[which].push((spent[which] * 1000) / (requests * (isShort ? 1 : tokens)));
    }
  }
  const { unit, name, goals } = load;
  return (['queue', 'worker'] as const).flatMap((which) => [
    {
      group: 'P1c',
      name: `processor ${unit}, ${which} ÷ the bare shape, ${name}`,
      unit: '×',
      goal: goals[which],
      rounds: ratios[which],
    },
    {
      group: 'P1c',
      name: `processor ${unit}, ${which}, ${name}`,
      unit: 'µs',
      goal: null,
      rounds: absolute[which],
    },
  ]);
}
