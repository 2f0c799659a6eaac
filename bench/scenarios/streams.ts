import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import type { LoadResult } from '../load/plan.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace } from '../road.ts';
import { median } from '../statistics.ts';

const INTER_TOKEN_MS = 10;

/** How long a stream lasts, in tokens: three seconds. */
const PACED_TOKENS = 300;

/** Streams at once, and the goal for their tail. */
const LOADS = [
  { streams: 1, tail: null },
  { streams: 64, tail: 1.4 },
  { streams: 256, tail: 2.5 },
];

/** P1: streams of a token each 10 ms, their whole time and their tail. */
export async function pacedStreams(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  await pace(road.engineUrl, INTER_TOKEN_MS);
  const figures: Figure[] = [];
  for (const { streams, tail } of LOADS) {
    const ask = (url: string) =>
      runLoad({
        url,
        arrivals: { kind: 'closed', callers: streams, requests: streams },
        tokens: scaled(PACED_TOKENS, effort),
      });
    await ask(road.queueUrl);
    const whole: number[] = [];
    const [gap50, gap99]: [number[], number[]] = [[], []];
    for (let round = 0; round < effort.rounds; round++) {
      const direct = await ask(road.engineUrl);
      const through = await ask(road.queueUrl);
      whole.push(median(through.totalMs) / median(direct.totalMs));
      gap50.push(ratio(through, direct, 'p50'));
      gap99.push(ratio(through, direct, 'p99'));
    }
    const name = streams === 1 ? '1 stream' : `${streams} streams`;
    const shared = { group: 'P1', unit: '×' };
    figures.push({ ...shared, name: `end to end ÷ direct, ${name}`, goal: null, rounds: whole });
    figures.push({ ...shared, name: `inter-token p50 ÷ direct, ${name}`, goal: null, rounds: gap50 });
    figures.push({ ...shared, name: `inter-token p99 ÷ direct, ${name}`, goal: tail, rounds: gap99 });
  }
  return figures;
}

function ratio(through: LoadResult, direct: LoadResult, which: 'p50' | 'p99'): number {
  return through.gapMs[which] / direct.gapMs[which];
}
