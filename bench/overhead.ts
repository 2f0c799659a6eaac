import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { readyWorker, startQueue, tearDown } from '../test/support/road.ts';

/**
 * What the road costs over a direct call: the same requests to the simulator itself and through gateway,
 * queue, relay and worker, in turns, in one run. Ratios hold across machines, absolute figures do not.
 *
 *   npm run bench [-- --rounds 5]
 */
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' } } });
const rounds = Number(values.rounds);

interface Load {
  name: string;
  streams: number;
  tokens: number;
  interTokenMs: number;
}

const LOADS: Load[] = [
  { name: 'one stream, as fast as it goes', streams: 1, tokens: 4000, interTokenMs: 0 },
  { name: '64 streams, as fast as they go', streams: 64, tokens: 1000, interTokenMs: 0 },
  { name: '64 streams, a token each 20 ms', streams: 64, tokens: 150, interTokenMs: 20 },
];

interface Measured {
  tokensPerSecond: number;
  firstTokenMs: number;
}

async function main(): Promise<void> {
  const queue = await startQueue();
  const worker = await readyWorker(queue.url, 'bench', {
    engineArgs: '--disable-uvicorn-access-log --max-num-seqs 256',
    env: { CASOLA_MAX_JOBS: '256', LOG_LEVEL: 'warn' },
  });
  for (const load of LOADS) {
    await pace(worker.engineUrl, load.interTokenMs);
    const direct: Measured[] = [];
    const road: Measured[] = [];
    await measure(worker.engineUrl, load);
    await measure(queue.url, load);
    for (let round = 0; round < rounds; round++) {
      direct.push(await measure(worker.engineUrl, load));
      road.push(await measure(queue.url, load));
    }
    report(load, direct, road);
  }
}

async function pace(engineUrl: string, interTokenMs: number): Promise<void> {
  const body = JSON.stringify({ time_to_first_token_ms: 0, inter_token_latency_ms: interTokenMs });
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${engineUrl}/simulator/pace`, { method: 'POST', headers, body });
  if (!response.ok) throw new Error(`the simulator's pace: ${response.status} ${await response.text()}`);
}

async function measure(url: string, load: Load): Promise<Measured> {
  await sleep(200);
  const began = performance.now();
  const firsts = await Promise.all(Array.from({ length: load.streams }, () => stream(url, load.tokens)));
  const seconds = (performance.now() - began) / 1000;
  return { tokensPerSecond: (load.streams * load.tokens) / seconds, firstTokenMs: median(firsts) };
}

/** Reads one streamed completion whole; answers the time to its first bytes, ms. */
async function stream(url: string, tokens: number): Promise<number> {
  const began = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'tiny',
      stream: true,
      max_tokens: tokens,
      ignore_eos: true,
      messages: [{ role: 'user', content: 'Go.' }],
    }),
  });
  let first = 0;
  let last = '';
  for await (const bytes of response.body as AsyncIterable<Uint8Array>) {
    first ||= performance.now() - began;
    last = new TextDecoder().decode(bytes.subarray(-20));
  }
  if (!response.ok || !last.endsWith('data: [DONE]\n\n'))
    throw new Error(`${url}: ${response.status} ${last}`);
  return first;
}

function report(load: Load, direct: Measured[], road: Measured[]): void {
  const ratios = road.map((measured, round) => measured.tokensPerSecond / direct[round]!.tokensPerSecond);
  const added = road.map((measured, round) => measured.firstTokenMs - direct[round]!.firstTokenMs);
  console.log(load.name);
  console.log(
    `  tokens/s through the road ÷ direct: median ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`,
  );
  console.log(
    `  time to first token, added: median ${median(added).toFixed(1)} ms (${Math.min(...added).toFixed(1)} to ${Math.max(...added).toFixed(1)})`,
  );
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

try {
  await main();
} finally {
  await tearDown();
}
