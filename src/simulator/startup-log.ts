import { logLine } from './dialect.ts';
import type { SimulatorOptions } from './options.ts';
import { KV_CACHE_TOKENS } from './scheduler.ts';

/** The number of shards that the progress bars count. */
const SHARDS = 8;
const GRAPHS = 4;

/** Returns the states of a progress bar. */
function bar(of: number): { done: number; percent: number }[] {
  return Array.from({ length: of + 1 }, (_, done) => ({ done, percent: Math.floor((100 * done) / of) }));
}

/** Returns the steps of a start, in vLLM's words and order; each makes the lines of one moment. */
export function startupSteps(options: SimulatorOptions): (() => string[])[] {
  const { model, maxModelLen, host, port } = options;
  const args = `{'model_tag': '${model}', 'host': '${host}', 'port': ${port}, 'model': '${model}'}`;
  const tokens = KV_CACHE_TOKENS.toLocaleString('en-US');
  const concurrency = (KV_CACHE_TOKENS / maxModelLen).toFixed(2);
  const length = maxModelLen.toLocaleString('en-US');
  const cache = `CPU KV cache size: ${tokens} tokens, Maximum concurrency for ${length} tokens per request: ${concurrency}x`;
  return [
    () => [
      logLine('APIServer', 'api_utils.py:347', 'version 0.32.0 (simulated: no model, made-up answers)'),
      logLine('APIServer', 'api_utils.py:286', `non-default args: ${args}`),
    ],
    () => [
      logLine('APIServer', 'model.py:733', 'Resolved architecture: LlamaForCausalLM'),
      logLine('APIServer', 'model.py:2152', `Using max model len ${maxModelLen}`),
    ],
    () => [
      logLine(
        'EngineCore',
        'core.py:133',
        `Initializing a V1 LLM engine (v0.32.0) with config: model='${model}'`,
      ),
    ],
    () => [logLine('Worker', 'model_runner.py:68', `Starting to load model ${model}...`)],
    ...bar(SHARDS).map(({ done, percent }) => () => [
      `(Worker pid=${process.pid}) Loading safetensors checkpoint shards: ${percent}% Completed | ${done}/${SHARDS}`,
    ]),
    () => [
      logLine('Worker', 'model_runner.py:92', 'Model loading took 0.0 GiB and 0.000000 seconds'),
      logLine('Worker', 'monitor.py:34', 'torch.compile takes 0.00 s in total'),
    ],
    () => [logLine('EngineCore', 'kv_cache_utils.py:2327', cache)],
    ...bar(GRAPHS).map(({ done, percent }) => () => [
      `Capturing CUDA graphs (decode, FULL): ${percent}%|${'#'.repeat(done)}| ${done}/${GRAPHS} [00:00<00:00]`,
    ]),
    () => [
      logLine(
        'EngineCore',
        'core.py:402',
        'init engine (profile, create kv cache, warmup model) took 0.00 s',
      ),
    ],
    () => [logLine('APIServer', 'entry.py:136', "Supported tasks: ['generate']")],
  ];
}

/** The index of the step that loads the model, in which the fault `start_failure` strikes. */
export const LOADING_STEP = 3;

export const startFailureLines = {
  out: (cause: string) => [
    logLine('EngineCore', 'core.py:1203', 'EngineCore failed to start.', 'ERROR'),
    logLine('EngineCore', 'core.py:1203', 'Traceback (most recent call last):', 'ERROR'),
    logLine(
      'EngineCore',
      'core.py:1203',
      /^\w+Error: /.test(cause) ? cause : `RuntimeError: ${cause}`,
      'ERROR',
    ),
  ],
  err: [
    'Traceback (most recent call last):',
    '  File "vllm/entrypoints/cli/serve.py", line 88, in cmd',
    'RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}',
  ],
};

export const portInUseLines = (host: string, port: number) => [
  'Traceback (most recent call last):',
  '  File "vllm/entrypoints/launchers/entry.py", line 61, in create_server_socket',
  'OSError: [Errno 98] Address already in use',
  `(simulated engine: ${host}:${port} is taken; choose another --port)`,
];

export const deathLines = () => [
  logLine(
    'APIServer',
    'core_client.py:817',
    '[shutdown] MPClient: engine core exited unexpectedly; starting cleanup',
    'WARNING',
  ),
  logLine('APIServer', 'async_llm.py:906', 'AsyncLLM output_handler failed.', 'ERROR'),
  logLine(
    'APIServer',
    'async_llm.py:906',
    'vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. ' +
      'See stack trace (above) for the root cause.',
    'ERROR',
  ),
];
