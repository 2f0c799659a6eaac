import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { VllmInstall } from '../../scripts/vllm/setup.ts';
import { tearDown } from '../../test/support/road.ts';
import { type Effort, scaled } from '../effort.ts';
import { startRealRoad } from '../real-road.ts';
import type { Figure } from '../report.ts';

const LOAD = { prompts: 64, concurrency: 8, inputTokens: 64, outputTokens: 64 };

/** The report of `vllm bench serve`, ms. */
interface Report {
  completed: number;
  output_throughput: number;
  median_ttft_ms: number;
  p99_ttft_ms: number;
  median_itl_ms: number;
  p99_itl_ms: number;
}

/** `vllm bench serve` against real vLLM on the CPU and against the road over it, in turns. */
export async function realVllm(effort: Effort): Promise<Figure[]> {
  const { vllm, queueUrl, engineUrl } = await startRealRoad(16);
  const pairs: { direct: Report; road: Report }[] = [];
  await benchServe(vllm, engineUrl, effort);
  for (let round = 0; round < effort.rounds; round++) {
    const direct = await benchServe(vllm, engineUrl, effort);
    pairs.push({ direct, road: await benchServe(vllm, queueUrl, effort) });
  }
  await tearDown();
  const figure = (name: string, unit: string, of: (pair: (typeof pairs)[number]) => number): Figure => {
    return { group: 'vllm', name, unit, goal: null, rounds: pairs.map(of) };
  };
  return [
    figure('first token added, p50', 'ms', ({ direct, road }) => road.median_ttft_ms - direct.median_ttft_ms),
    figure('first token added, p99', 'ms', ({ direct, road }) => road.p99_ttft_ms - direct.p99_ttft_ms),
    figure('inter-token p50 ÷ direct', '×', ({ direct, road }) => road.median_itl_ms / direct.median_itl_ms),
    figure('inter-token p99 ÷ direct', '×', ({ direct, road }) => road.p99_itl_ms / direct.p99_itl_ms),
    figure('tokens/s ÷ direct', '×', ({ direct, road }) => road.output_throughput / direct.output_throughput),
  ];
}

async function benchServe(vllm: VllmInstall, url: string, effort: Effort): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-vllm-'));
  const prompts = scaled(LOAD.prompts, effort);
  const options = {
    backend: 'openai-chat',
    'base-url': url,
    endpoint: '/v1/chat/completions',
    model: 'tiny',
    tokenizer: vllm.modelDir,
    'dataset-name': 'random',
    'random-input-len': LOAD.inputTokens,
    'random-output-len': LOAD.outputTokens,
    'num-prompts': prompts,
    'max-concurrency': LOAD.concurrency,
    'percentile-metrics': 'ttft,itl',
    'result-dir': folder,
    'result-filename': 'report.json',
  };
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const flags = ['--ignore-eos', '--save-result', '--disable-tqdm'];
  try {
    await promisify(execFile)(vllm.vllmCommand, ['bench', 'serve', ...words, ...flags], {
      env: { ...process.env, ...vllm.env },
    });
    const report = JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8')) as Report;
    if (report.completed !== prompts) throw new Error(`${url}: ${report.completed} of ${prompts} succeeded`);
    return report;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
