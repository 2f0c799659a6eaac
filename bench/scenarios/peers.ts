import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import type { LoadResult } from '../load/plan.ts';
import { processorMs, residentMegabytes } from '../machine.ts';
import { ALL_PEERS, isInstalled, type RunningPeer, startPeer } from '../peers/index.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace, processesOf } from '../road.ts';
import { median, sum } from '../statistics.ts';

const OURS = 'worker-vllm';
/** The goals are measured against this router. */
const LEANEST_ROUTER = "vLLM's router";

interface Load {
  unit: 'a short request' | 'a token';
  interTokenMs: number;
  tokens: number;
  callers: number;
  requests: number;
  /** Largest share of what the leanest router spends. */
  goal: number;
}

const LOADS: Load[] = [
  { unit: 'a short request', interTokenMs: 0, tokens: 1, callers: 64, requests: 2000, goal: 4 },
  { unit: 'a token', interTokenMs: 10, tokens: 200, callers: 64, requests: 64, goal: 2.5 },
];

/** The figures of one load on one side; processor time and memory are those of all its processes but the engine. */
interface Run {
  /** µs a unit. */
  processor: number;
  /** ms, of the median request. */
  first: number;
  memory: number;
}

/** Our road and its peers in front of the same simulator, asked by the same client, in turns. */
export async function peers(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  const found = ALL_PEERS.filter(isInstalled);
  const missing = ALL_PEERS.filter((peer) => !isInstalled(peer)).map(({ name }) => name);
  if (missing.length > 0)
    console.log(`Not installed, so left out: ${missing.join(', ')}. node bench/setup.ts`);
  const figures: Figure[] = [];
  for (const load of LOADS) {
    await pace(road.engineUrl, load.interTokenMs);
    const sides = new Map<string, RunningPeer>([
      [OURS, { url: road.queueUrl, pids: () => processesOf(road), stop: () => {} }],
    ]);
    try {
      for (const peer of found) sides.set(peer.name, await startPeer(peer, { ...load, ...road }));
      for (const { url } of sides.values()) await ask(load, url, effort);
      figures.push(...(await measure(load, sides, effort, road.engineUrl)));
    } finally {
      for (const side of sides.values()) side.stop();
    }
  }
  return figures;
}

async function measure(
  load: Load,
  sides: ReadonlyMap<string, RunningPeer>,
  effort: Effort,
  engineUrl: string,
): Promise<Figure[]> {
  const runs = new Map<string, Run[]>([...sides.keys()].map((name) => [name, []]));
  const direct: number[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    direct.push(median((await ask(load, engineUrl, effort)).firstMs));
    for (const [name, side] of sides) {
      const before = sum(side.pids().map(processorMs));
      const result = await ask(load, side.url, effort);
      const spent = sum(side.pids().map(processorMs)) - before;
      const units = load.unit === 'a token' ? result.firstMs.length * load.tokens : result.firstMs.length;
      runs.get(name)!.push({
        processor: (spent * 1000) / units,
        first: median(result.firstMs),
        memory: sum(side.pids().map(residentMegabytes)),
      });
    }
  }
  return [...runs].flatMap(([name, ofSide]) =>
    figuresOf(load, name, ofSide, runs.get(LEANEST_ROUTER), direct),
  );
}

function figuresOf(
  load: Load,
  name: string,
  runs: Run[],
  leanest: Run[] | undefined,
  direct: number[],
): Figure[] {
  const shared = { group: 'peers', goal: null };
  const isShort = load.unit === 'a short request';
  const figures: Figure[] = [
    {
      ...shared,
      name: `${name}: processor ${load.unit}, all processes`,
      unit: 'µs',
      rounds: runs.map(({ processor }) => processor),
    },
  ];
  if (name === OURS && leanest) {
    figures.push({
      ...shared,
      name: `${name} ÷ ${LEANEST_ROUTER}: processor ${load.unit}`,
      unit: '×',
      goal: load.goal,
      rounds: runs.map(({ processor }, round) => processor / leanest[round]!.processor),
    });
  }
  if (isShort) return figures;
  const added = runs.map(({ first }, round) => first - direct[round]!);
  figures.push({
    ...shared,
    name: `${name}: first token added, 64 at one moment`,
    unit: 'ms',
    rounds: added,
  });
  figures.push({
    ...shared,
    name: `${name}: resident memory, all processes`,
    unit: 'MB',
    rounds: [Math.max(...runs.map(({ memory }) => memory))],
  });
  return figures;
}

function ask({ callers, requests, tokens, unit }: Load, url: string, effort: Effort): Promise<LoadResult> {
  const isShort = unit === 'a short request';
  return runLoad({
    url,
    arrivals: { kind: 'closed', callers, requests: isShort ? scaled(requests, effort) : requests },
    tokens,
  });
}
