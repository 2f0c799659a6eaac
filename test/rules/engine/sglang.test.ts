import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readEngineConfiguration } from '../../../src/engine/command/configuration.ts';
import { requestsSideBySide } from '../../../src/engine/command/default-flags.ts';
import {
  argumentsFromEnvironment,
  defaultParallelism,
  groupArguments,
  inVariables,
} from '../../../src/engine/command/flag-arguments.ts';
import { parseHelp } from '../../../src/engine/command/learn-flags.ts';
import { describeEngine } from '../../../src/engine/kinds/index.ts';
import { levelOf } from '../../../src/engine/kinds/log-phases.ts';

const engine = describeEngine('sglang');

/** Lines of `python3 -m sglang.launch_server --help` of 0.5.23, those that are named here and one or more of each form. */
const FLAGS = parseHelp(readFileSync(new URL('fixtures/sglang-0.5.23-help.txt', import.meta.url), 'utf8'));
const NAMES = new Set(FLAGS.flatMap(({ name, otherNames }) => [name, ...otherNames]));

/** Metrics of 0.5.23, from `srt/observability/metrics_collector.py`; histograms by the names of their counts. */
const METRICS = [
  'sglang:num_running_reqs',
  'sglang:num_queue_reqs',
  'sglang:token_usage',
  'sglang:generation_tokens_total',
  'sglang:prompt_tokens_total',
  'sglang:num_retracted_requests_total',
  'sglang:realtime_tokens_total',
  'sglang:inter_token_latency_seconds_count',
  'sglang:time_to_first_token_seconds_count',
];

function said(env: NodeJS.ProcessEnv) {
  return argumentsFromEnvironment(env, FLAGS, new Map(), engine);
}

function wordsOf(env: NodeJS.ProcessEnv): string {
  return said(env)
    .arguments.flatMap(({ words }) => words)
    .join(' ');
}

describe('SGLang', () => {
  it('is started as a module of Python, with its metrics and a health check that makes no tokens', () => {
    const { settings } = readEngineConfiguration({
      ENGINE: 'sglang',
      VLLM_MODEL: 'Qwen/Qwen3-0.6B',
      VLLM_SERVED_MODEL_NAME: 'qwen',
      VLLM_EXTRA_ARGS: '--lora-paths sql=acme/sql',
    });
    const { program, args, env } = engine.command!(settings!);
    expect([program, ...args].join(' ')).toBe(
      'python3 -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --host 127.0.0.1 --port 8000 ' +
        '--served-model-name qwen --enable-metrics --lora-paths sql=acme/sql',
    );
    expect(env).toEqual({ SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION: 'false' });
  });

  it('has every flag and metric that its description names', () => {
    const { settings } = readEngineConfiguration({
      ENGINE: 'sglang',
      VLLM_MODEL: 'm',
      VLLM_SERVED_MODEL_NAME: 'n',
    });
    const rewritten = Object.values(engine.vllmVariables!).flatMap((words) => words('8', {}));
    const named = [
      ...engine.command!(settings!).args,
      ...rewritten.flat(),
      engine.sideBySide.flag!,
      engine.gpusFlag!,
      engine.cachedTokensFlag!,
    ].filter((word) => word.startsWith('--'));
    expect(named.filter((flag) => !NAMES.has(flag))).toEqual([]);
    const { progress, ...gauges } = engine.metrics;
    expect([...progress, ...Object.values(gauges)].filter((name) => !METRICS.includes(name))).toEqual([]);
  });

  it('takes its flags by their names, and vLLM’s names for the same', () => {
    expect(wordsOf({ MAX_MODEL_LEN: '32k', MAX_NUM_SEQS: '64', TOKENIZER: 'o/t' })).toBe(
      '--context-length 32000 --max-running-requests 64 --tokenizer-path o/t',
    );
    expect(
      wordsOf({ MEM_FRACTION_STATIC: '0.8', LORA_PATHS: 'a=/a,b=/b', LORA_STRICT_LOADING: 'false' }),
    ).toBe('--lora-paths a=/a b=/b --no-lora-strict-loading --mem-fraction-static 0.8');
    expect(wordsOf({ TENSOR_PARALLEL_SIZE: '2', DISABLE_CUDA_GRAPH: '1' })).toBe(
      '--disable-cuda-graph --tp-size 2',
    );
    expect(said({ GPU_MEMORY_UTILIZATION: '0.9' }).warnings[0]).toMatch(/^GPU_MEMORY_UTILIZATION is ignored/);
    expect(() => wordsOf({ MAX_MODEL_LEN: 'auto' })).toThrow('expected a number of tokens');
  });

  it('uses all visible GPUs unless a flag of its own says how', () => {
    expect(defaultParallelism(engine, [], 4)[0]?.words).toEqual(['--tensor-parallel-size', '4']);
    expect(defaultParallelism(engine, groupArguments(['--tp-size', '2'], 'x', FLAGS), 4)).toEqual([]);
    expect(requestsSideBySide(engine, ['--max-running-requests', '48'])).toBe(48);
  });

  it('loads no adapters while it runs, and has no cache of others', () => {
    const given = { ENGINE: 'sglang', VLLM_MODEL: 'm' };
    const adapters = { ...given, ENGINE_ADAPTERS: '[{"name":"sql","source":"acme/sql"}]' };
    expect(() => readEngineConfiguration(adapters)).toThrow(/SGLang loads no adapters while it runs/);
    const prefill = { ...given, ENGINE_PREFILL_URL: 'http://10.0.0.5:8100' };
    expect(() => readEngineConfiguration(prefill)).toThrow(/SGLang reads no cache of another engine/);
  });

  it.each([
    ['[2026-11-28 09:08:51] server_args=ServerArgs(model_path=...)', 'starting', undefined],
    ['[2026-11-28 09:08:51 TP0] Init torch distributed begin.', 'starting', undefined],
    ['[2026-11-28 09:08:51 TP0] Load weight begin. avail mem=78.50 GB', 'loading', undefined],
    [
      'Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.0s/it]',
      'loading',
      '1 of 2',
    ],
    ['Multi-thread loading shards:  75% Completed | 3/4 [00:01<00:00,  2.0it/s]', 'loading', '3 of 4'],
    ['[2026-11-28 09:08:51 TP0] Memory pool end. avail mem=5.00 GB', 'warming', undefined],
    [
      '[2026-11-28 09:08:51 TP0] Capture decode CUDA graph begin. This can take up to several minutes.',
      'capturing',
      undefined,
    ],
    ['Capturing batches (bs=8 avail_mem=4.00 GB):  25%|██▌       | 1/4 [00:01<', 'capturing', '1 of 4'],
    ['[2026-11-28 09:08:51] The server is fired up and ready to roll!', 'ready', undefined],
    ['[2026-11-28 09:08:51] Decode batch. #running-req: 1, #token: 200', undefined, undefined],
  ])('tells of its start: %s', (line, phase, progress) => {
    expect(engine.phaseOf(line)?.phase).toBe(phase);
    expect(engine.phaseOf(line)?.progress?.text).toBe(progress);
  });

  it('has its lines about health checks as noise, and warnings of its server as such', () => {
    const request = '[2026-11-28 09:08:51] INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK';
    expect(levelOf(request)).toBe('debug');
    expect(levelOf('[2026-11-28 09:08:51] WARNING:  Invalid HTTP request received.')).toBe('warn');
  });
});

describe('the cause in SGLang’s last words', () => {
  it.each([
    ["ModuleNotFoundError: No module named 'sglang'", 'bad_configuration', 'not installed'],
    ['launch_server.py: error: unrecognized arguments: --frob', 'bad_configuration', '--frob'],
    [
      'ValueError: Warning: User-specified context_length (99999) is greater than the derived context_length (40960). This may lead to incorrect model outputs or CUDA errors.',
      'bad_configuration',
      '99999',
    ],
    [
      'RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.1',
      'out_of_memory',
      'memory does not suffice',
    ],
    ['torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB', 'out_of_memory', 'memory'],
    ['OSError: x is not a local folder and is not a valid model identifier', 'bad_model', 'no such model'],
    ['RuntimeError: No CUDA GPUs are available', 'bad_host', 'no GPU'],
    ['Exception: Capture cuda graph failed: illegal instruction', 'transient', 'illegal instruction'],
    ['ValueError: Unsupported architecture', 'transient', 'ValueError: Unsupported architecture'],
    [
      '[2026-11-28 09:08:51] Received sigquit from a child process. It usually means the child failed.',
      'transient',
      'one of its processes died',
    ],
  ])('%s', (line, kind, cause) => {
    const failure = engine.explainExit(1, ['[2026-11-28 09:08:51 TP0] before', line]);
    expect(failure.kind).toBe(kind);
    expect(failure.cause).toContain(cause);
    expect(failure.advice).not.toContain('vllm');
  });

  it('names the variable whose value it refuses', () => {
    const lines = ["launch_server.py: error: argument --max-running-requests: invalid int value: 'x'"];
    const failure = inVariables(engine.explainExit(2, lines), lines, said({ MAX_NUM_SEQS: 'x' }).arguments);
    expect(failure.cause).toContain('does not accept MAX_NUM_SEQS (--max-running-requests)');
  });
});
