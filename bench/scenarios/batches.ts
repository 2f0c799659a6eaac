import { setTimeout as sleep } from 'node:timers/promises';
import { tearDown } from '../../test/support/road.ts';
import { batchNow, bodiesOf, cancelBatch, createBatch, download, sendDirectly } from '../batches/lines.ts';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { residentMegabytes } from '../machine.ts';
import { startRealRoad } from '../real-road.ts';
import type { Figure } from '../report.ts';
import { pace, startRoad } from '../road.ts';
import { median } from '../statistics.ts';

/** Engines with so many slots: a tenth stays free of batch work, so direct callers are as many as the rest. */
const SIMULATOR = {
  slots: 64,
  lines: 3000,
  tokens: 20,
  interTokenMs: 10,
  characters: 200,
  looksEveryMs: 100,
};
/** Each look costs the queue a request, on processors that this engine wants too. */
const VLLM = { slots: 16, characters: 200, looksEveryMs: 500 };
const VLLM_SHORT = { ...VLLM, lines: 84, tokens: 32 };
const VLLM_LONG = { ...VLLM, lines: 42, tokens: 256 };
/**
 * The shape of SmolLM2-135M, about the smallest model that people use, with random weights and the tiny model's
 * vocabulary. A step of the tiny model itself is nearly all Python, and beside it anything on the same processors is much.
 */
const MODEL_SHAPE = {
  num_hidden_layers: 30,
  hidden_size: 576,
  intermediate_size: 1536,
  num_attention_heads: 9,
  num_key_value_heads: 3,
  head_dim: 64,
};
const VLLM_GROUP = 'vllm-batches';
/**
 * Few and short enough for the slots that batches leave free: a step of that model takes a tenth of a second. And many,
 * since each waits for the end of whichever step it comes in, of which some take ten times as long.
 */
const BESIDE = { requests: 120, ratePerSecond: 1, tokens: 2 };
/** The requests beside have different lengths, or all of them would begin at once again and again. */
const BESIDE_TOKENS = { least: 64, most: 448, stride: 97 };
const WARM_UP_TOKENS = 8;
/** More than are done meanwhile. */
const BESIDE_LINES = 8000;
/** Until what runs beside has spread over the slots, ms. */
const SPREADING_MS = 30_000;
/** 100 MB. */
const LARGE = { lines: 100_000, characters: 820 };
const LOOKS_EVERY_MS = 100;
/** A process that has just started is still giving memory back, ms. */
const SETTLING_MS = 3000;

interface Load {
  slots: number;
  lines: number;
  tokens: number;
  characters: number;
  looksEveryMs: number;
}

/** Measures what a batch costs over the same requests sent directly, and what it costs those who wait beside it. */
export async function batchesOfSimulator(effort: Effort): Promise<Figure[]> {
  const road = await startRoad(SIMULATOR.slots);
  await pace(road.engineUrl, SIMULATOR.interTokenMs);
  const rates = await ratesOf(road, SIMULATOR, effort);
  await tearDown();
  return [figure('batches', 'lines/s of a batch ÷ requests/s sent directly, simulator', '×', null, rates)];
}

export async function batchesOfVllm(effort: Effort): Promise<Figure[]> {
  const road = await startRealRoad(VLLM.slots, MODEL_SHAPE);
  const short = await ratesOf(road, VLLM_SHORT, effort);
  const long = await ratesOf(road, VLLM_LONG, effort);
  const beside = await besideBatch(road, effort);
  await tearDown();
  return [
    {
      ...figure(VLLM_GROUP, nameOf(VLLM_LONG), '×', 0.95, long),
      atLeast: true,
    },
    figure(VLLM_GROUP, nameOf(VLLM_SHORT), '×', null, short),
    figure(
      VLLM_GROUP,
      'first token beside a batch ÷ beside as many direct requests, vLLM, p50',
      '×',
      1.1,
      beside,
    ),
  ];
}

function figure(group: string, name: string, unit: string, goal: number | null, rounds: number[]): Figure {
  return { group, name, unit, goal, rounds };
}

function nameOf({ tokens }: Load): string {
  return `lines/s of a batch ÷ requests/s sent directly, vLLM, ${tokens} tokens a line`;
}

/** Slots in which batch work runs. */
function usable(slots: number): number {
  return slots - Math.ceil(slots / 10);
}

async function ratesOf(
  { queueUrl, engineUrl }: { queueUrl: string; engineUrl: string },
  { slots, lines, tokens, characters, looksEveryMs }: Load,
  effort: Effort,
): Promise<number[]> {
  const count = Math.max(slots, scaled(lines, effort));
  const runDirectly = (bodies: string[]) => sendDirectly(engineUrl, bodies, usable(slots));
  const runBatch = async (bodies: string[]) => {
    const { id } = await createBatch(queueUrl, bodies);
    return await rateOf(queueUrl, id, bodies.length, looksEveryMs);
  };
  const some = () => bodiesOf(count, tokens, characters);
  await runDirectly(bodiesOf(2 * slots, WARM_UP_TOKENS, characters));
  await runBatch(bodiesOf(2 * slots, WARM_UP_TOKENS, characters));
  const ratios: number[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    // The other one first in every second round: a machine that becomes slower favours neither.
    const early = round % 2 === 0 ? null : await runBatch(some());
    const direct = await runDirectly(some());
    const batch = early ?? (await runBatch(some()));
    console.log(`     direct ${direct.toFixed(3)}/s, batch ${batch.toFixed(3)}/s`);
    ratios.push(batch / direct);
  }
  return ratios;
}

/** @returns lines/s from when its lines were read until it ended */
async function rateOf(
  url: string,
  id: string,
  lines: number,
  looksEveryMs: number,
  tell: (status: string) => void = () => {},
): Promise<number> {
  let began: number | null = null;
  for (;;) {
    const { status, request_counts: counts } = await batchNow(url, id);
    tell(status);
    if (status !== 'validating') began ??= performance.now();
    if (status === 'completed' && counts.completed === lines) {
      return (lines * 1000) / (performance.now() - began!);
    }
    if (!['validating', 'in_progress', 'finalizing'].includes(status))
      throw new Error(`the batch is ${status}: ${JSON.stringify(counts)}`);
    await sleep(looksEveryMs);
  }
}

/** Time to the first token of those who wait for an answer: beside a batch, against beside direct requests. */
async function besideBatch(road: { queueUrl: string; engineUrl: string }, effort: Effort): Promise<number[]> {
  const ratios: number[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    const early = round % 2 === 0 ? null : await firstTokenBesideBatch(road, effort);
    const alone = await firstTokenBesideDirect(road, effort);
    const beside = early ?? (await firstTokenBesideBatch(road, effort));
    console.log(
      `     first token beside direct ${alone.toFixed(1)} ms, beside a batch ${beside.toFixed(1)} ms`,
    );
    ratios.push(beside / alone);
  }
  return ratios;
}

async function firstTokenBesideDirect(
  { queueUrl, engineUrl }: { queueUrl: string; engineUrl: string },
  effort: Effort,
): Promise<number> {
  const stop = new AbortController();
  const direct = sendDirectly(engineUrl, untilAborted(besideBodies(), stop.signal), usable(VLLM.slots));
  await sleep(scaled(SPREADING_MS, effort));
  const firstMs = await firstTokenMs(queueUrl, effort);
  stop.abort();
  await direct;
  return firstMs;
}

async function firstTokenBesideBatch({ queueUrl }: { queueUrl: string }, effort: Effort): Promise<number> {
  const { id } = await createBatch(queueUrl, besideBodies());
  while ((await batchNow(queueUrl, id)).request_counts.completed === 0) await sleep(LOOKS_EVERY_MS);
  await sleep(scaled(SPREADING_MS, effort));
  const firstMs = await firstTokenMs(queueUrl, effort);
  await cancelBatch(queueUrl, id);
  while ((await batchNow(queueUrl, id)).status !== 'cancelled') await sleep(LOOKS_EVERY_MS);
  return firstMs;
}

async function firstTokenMs(url: string, effort: Effort): Promise<number> {
  const { requests, ratePerSecond, tokens } = BESIDE;
  const arrivals = { kind: 'open' as const, ratePerSecond, requests: Math.max(5, scaled(requests, effort)) };
  return median((await runLoad({ url, arrivals, tokens })).firstMs);
}

function besideBodies(): string[] {
  const { least, most, stride } = BESIDE_TOKENS;
  return Array.from({ length: BESIDE_LINES }, (_, n) => {
    const [body] = bodiesOf(1, least + ((n * stride) % (most - least)), VLLM.characters);
    return body!;
  });
}

/** Behaves as the list until it is told to end. */
function untilAborted(bodies: readonly string[], signal: AbortSignal): readonly string[] {
  const values = function* () {
    for (const body of bodies) {
      if (signal.aborted) return;
      yield body;
    }
  };
  return { length: bodies.length, values } as unknown as readonly string[];
}

/** Resident memory of the queue from the upload of a file of 100 MB to the download of its answers, above what it has idle. */
export async function memoryOfBatch(effort: Effort): Promise<Figure[]> {
  const road = await startRoad(SIMULATOR.slots, undefined, { QUEUE_MAX_BATCH_LINES: String(LARGE.lines) });
  await pace(road.engineUrl, 0);
  const bodies = bodiesOf(scaled(LARGE.lines, effort), 1, LARGE.characters);
  await sleep(scaled(SETTLING_MS, effort));
  const idle = residentMegabytes(road.pids.queue);
  /** The peak of each step of the batch. */
  const peaks = new Map<string, number>();
  let step = 'upload';
  const look = setInterval(() => {
    const above = residentMegabytes(road.pids.queue) - idle;
    peaks.set(step, Math.max(peaks.get(step) ?? 0, above));
  }, LOOKS_EVERY_MS);
  const { id } = await createBatch(road.queueUrl, bodies);
  const rate = await rateOf(road.queueUrl, id, bodies.length, LOOKS_EVERY_MS, (status) => {
    step = status;
  });
  step = 'download';
  const { output_file_id } = await batchNow(road.queueUrl, id);
  await download(road.queueUrl, output_file_id);
  clearInterval(look);
  await tearDown();
  console.log(`     ${[...peaks].map(([name, peak]) => `${name} ${peak.toFixed(0)} MB`).join(', ')}`);
  const what = `a batch of ${LARGE.lines} lines and 100 MB`;
  return [
    figure('batch-memory', `resident memory, queue, during ${what}, above idle`, 'MB', 250, [
      Math.max(...peaks.values()),
    ]),
    figure('batch-memory', `lines/s of ${what}, one token each`, '/s', null, [rate]),
  ];
}
