import { runDurable } from '../durable/index.ts';
import { runLoad } from '../load/index.ts';
import type { LoadPlan } from '../load/plan.ts';
import { processorOf } from '../machine.ts';
import { pace, warmUp } from '../road.ts';
import { median, quantile } from '../statistics.ts';
import { type ServedRoad, serveRoad } from './index.ts';

/** Figures of one load on one road, by their names. */
type Measured = Record<string, number>;

export interface Load {
  name: string;
  /** On roads that have just started, new ones for each pair. */
  isCold?: boolean;
  measure(road: ServedRoad): Promise<Measured>;
}

/** One figure of a load: its median on either road, and the quartiles of own ÷ other. */
export interface Ratio {
  load: string;
  figure: string;
  other: number;
  own: number;
  quartiles: [low: number, middle: number, high: number];
}

interface EngineLoad {
  interTokenMs: number;
  tokens: number;
  requests: number;
  /** The unit by which processor time is divided. */
  unit: 'request' | 'token';
}

const STORED = { jobs: 1600, inFlight: 64, slots: 16, bytes: 1000 };

/** Short loads, each of a second or two. */
export const LOADS: Load[] = [
  engineLoad('short requests, 64 side by side', {
    interTokenMs: 0,
    tokens: 1,
    requests: 400,
    unit: 'request',
  }),
  engineLoad('64 requests at one moment', { interTokenMs: 10, tokens: 8, requests: 64, unit: 'request' }),
  engineLoad('64 streams of a token each 10 ms', {
    interTokenMs: 10,
    tokens: 60,
    requests: 64,
    unit: 'token',
  }),
  {
    ...engineLoad('the first 2,000 requests, 64 side by side', {
      interTokenMs: 0,
      tokens: 1,
      requests: 2000,
      unit: 'request',
    }),
    isCold: true,
  },
  {
    name: 'stored jobs, 64 in flight',
    async measure({ queueUrl, pids }) {
      const run = await runDurable('ours', { ...STORED, url: queueUrl }, pids.queue);
      return { 'queue, µs a job': run.server };
    },
  },
];

/**
 * Whether one checkout is dearer or cheaper than another. The roads of both run at the same time and take turns, one
 * short load each, so that what else the machine does concerns both.
 * @returns the figures of one load after another
 */
export async function* comparePairs(
  other: string,
  own: string,
  rounds: number,
  loads: readonly Load[],
): AsyncGenerator<Ratio[]> {
  const checkouts = [other, own];
  const warm = loads.filter(({ isCold }) => !isCold);
  const roads: ServedRoad[] = [];
  try {
    if (warm.length > 0) for (const checkout of checkouts) roads.push(await serveRoad(checkout));
    for (const road of roads) await warmUp(road, { rounds: 1, share: 1 });
    for (const load of warm) {
      for (const road of roads) await load.measure(road);
      yield await compare(load, rounds, (index) => load.measure(roads[index]!));
    }
  } finally {
    await Promise.all(roads.map((road) => road.stop()));
  }
  for (const load of loads.filter(({ isCold }) => isCold)) {
    yield await compare(load, rounds, async (index) => {
      const road = await serveRoad(checkouts[index]!);
      return await load.measure(road).finally(() => road.stop());
    });
  }
}

export function ratioText({ figure, other, own, quartiles }: Ratio): string {
  const [low, middle, high] = quartiles.map((ratio) => ratio.toFixed(2));
  return `  ${figure.padEnd(26)} ${other.toFixed(1)} → ${own.toFixed(1)}   × ${middle} (quartiles ${low}–${high})`;
}

async function compare(
  load: Load,
  rounds: number,
  measure: (index: number) => Promise<Measured>,
): Promise<Ratio[]> {
  const pairs: [other: Measured, own: Measured][] = [];
  for (let round = 0; round < rounds; round++) {
    const measured: Measured[] = [];
    // Neither is always the second.
    for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) measured[index] = await measure(index);
    pairs.push([measured[0]!, measured[1]!]);
  }
  return Object.keys(pairs[0]![0]).map((figure) => ratioOf(load.name, figure, pairs));
}

function ratioOf(load: string, figure: string, pairs: readonly [Measured, Measured][]): Ratio {
  const ratios = pairs.map(([other, own]) => own[figure]! / other[figure]!);
  return {
    load,
    figure,
    other: median(pairs.map(([other]) => other[figure]!)),
    own: median(pairs.map(([, own]) => own[figure]!)),
    quartiles: [quantile(ratios, 0.25), quantile(ratios, 0.5), quantile(ratios, 0.75)],
  };
}

function engineLoad(name: string, { interTokenMs, tokens, requests, unit }: EngineLoad): Load {
  const arrivals: LoadPlan['arrivals'] = { kind: 'closed', callers: 64, requests };
  return {
    name,
    async measure(road) {
      await pace(road.engineUrl, interTokenMs);
      const used = processorOf(road.pids);
      const { firstMs, gapMs } = await runLoad({ url: road.queueUrl, arrivals, tokens });
      const spent = processorOf(road.pids, used);
      const units = requests * (unit === 'token' ? tokens : 1);
      return {
        [`queue, µs a ${unit}`]: (spent.queue / units) * 1000,
        [`worker, µs a ${unit}`]: (spent.worker / units) * 1000,
        'first token, p50, ms': median(firstMs),
        ...(tokens > 1 && { 'between tokens, p99, ms': gapMs.p99 }),
      };
    },
  };
}
