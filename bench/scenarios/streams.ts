import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import type { LoadResult } from '../load/plan.ts';
import { processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace } from '../road.ts';
import { median } from '../statistics.ts';

const INTER_TOKEN_MS = 10;

/** How long a stream lasts, in tokens: three seconds. */
const PACED_TOKENS = 300;

/** P1: streams of a token each 10 ms, their whole time and their tail, and the processor time each token takes. */
export async function pacedStreams(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  await pace(road.engineUrl, INTER_TOKEN_MS);
  const figures: Figure[] = [];
  for (const streams of [1, 64, 256]) {
    const ask = (url: string) =>
      runLoad({
        url,
        arrivals: { kind: 'closed', callers: streams, requests: streams },
        tokens: scaled(PACED_TOKENS, effort),
      });
    await ask(road.queueUrl);
    const seen = { whole: [], gap50: [], gap99: [], workerd: [], worker: [] } as Record<string, number[]>;
    for (let round = 0; round < effort.rounds; round++) {
      const direct = await ask(road.engineUrl);
      const used = processorOf(road);
      const through = await ask(road.queueUrl);
      const spent = processorOf(road, used);
      seen.whole!.push(median(through.totalMs) / median(direct.totalMs));
      seen.gap50!.push(ratio(through, direct, 'p50'));
      seen.gap99!.push(ratio(through, direct, 'p99'));
      seen.workerd!.push(spent.workerd / spent.engine);
      seen.worker!.push(spent.worker / spent.engine);
    }
    const name = streams === 1 ? '1 stream' : `${streams} streams`;
    const shared = { group: 'P1', unit: '×' };
    figures.push({ ...shared, name: `end to end ÷ direct, ${name}`, goal: 1.03, rounds: seen.whole! });
    figures.push({ ...shared, name: `inter-token p50 ÷ direct, ${name}`, goal: null, rounds: seen.gap50! });
    const tail = streams === 256 ? 3 : 1.5;
    figures.push({ ...shared, name: `inter-token p99 ÷ direct, ${name}`, goal: tail, rounds: seen.gap99! });
    if (streams === 1) continue;
    const cost = { group: 'P1c', unit: '×' };
    figures.push({
      ...cost,
      name: `processor a token, workerd ÷ simulator, ${name}`,
      goal: 1,
      rounds: seen.workerd!,
    });
    figures.push({
      ...cost,
      name: `processor a token, worker ÷ simulator, ${name}`,
      goal: 0.8,
      rounds: seen.worker!,
    });
  }
  return figures;
}

/** P2: tokens a second with an engine as fast as it goes. */
export async function fastStreams(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  await pace(road.engineUrl, 0);
  const figures: Figure[] = [];
  for (const streams of [1, 64, 256]) {
    const tokens = scaled(streams === 1 ? 4000 : 64_000 / streams, effort);
    const ask = (url: string) =>
      runLoad({ url, arrivals: { kind: 'closed', callers: streams, requests: streams * 2 }, tokens });
    await ask(road.queueUrl);
    const ratios: number[] = [];
    for (let round = 0; round < effort.rounds; round++) {
      const direct = await ask(road.engineUrl);
      ratios.push((await ask(road.queueUrl)).tokensPerSecond / direct.tokensPerSecond);
    }
    const name = `tokens/s ÷ direct, engine as fast as it goes, ${streams} stream${streams === 1 ? '' : 's'}`;
    figures.push({ group: 'P2', unit: '×', name, goal: 0.6, atLeast: true, rounds: ratios });
  }
  return figures;
}

function ratio(through: LoadResult, direct: LoadResult, which: 'p50' | 'p99'): number {
  return through.gapMs[which] / direct.gapMs[which];
}

type Spent = Record<keyof BenchRoad['pids'], number>;

/** Processor time of each process, ms, since `before`. */
export function processorOf(road: BenchRoad, before?: Spent): Spent {
  const { workerd, worker, engine } = road.pids;
  return {
    workerd: processorMs(workerd) - (before?.workerd ?? 0),
    worker: processorMs(worker) - (before?.worker ?? 0),
    engine: processorMs(engine) - (before?.engine ?? 0),
  };
}
