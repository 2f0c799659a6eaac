import type { EngineDescription, LogPhase } from './description.ts';
import { type AdviceWords, commonRules, decisiveBy, explainBy, type FailureRule } from './failures.ts';
import { progressIn } from './log-phases.ts';
import type { EnginePhase } from './report.ts';
import { readTokens } from './vllm-values.ts';

const MODULE = 'sglang.launch_server';
const WORDS: AdviceWords = {
  help: `python3 -m ${MODULE} --help`,
  contextLength: '--context-length',
  maxSequences: '--max-running-requests',
  memoryShare: '--mem-fraction-static',
  gpus: '--tensor-parallel-size',
};

/** SGLang's `sglang.launch_server`, by the source and the help of 0.5.23; its server was not run, since it needs a GPU. */
export const sglang: EngineDescription = {
  name: 'sglang',
  title: 'SGLang',
  command: ({ serveCommand, model, host, port, servedModelName, extraArgs }) => {
    const [program, ...first] = serveCommand ?? ['python3', '-m', MODULE];
    const where = ['--model-path', model, '--host', host, '--port', String(port)];
    const named = servedModelName ? ['--served-model-name', servedModelName] : [];
    return {
      program,
      args: [...first, ...where, ...named, '--enable-metrics', ...extraArgs],
      // Else each health check generates a token, and takes a second or more.
      env: { SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION: 'false' },
    };
  },
  usesGpu: true,
  // SGLang has vLLM's routes for adapters, but each start must say their largest rank and modules, which nobody knows.
  loadsAdapters: false,
  canSleep: false,
  goesOnFromIds: false,
  keepsWeights: false,
  readsPrefilled: false,
  hasChatAlone: false,
  installHelp:
    'Use an image with SGLang in it, or install it with "pip install sglang"; VLLM_SERVE_COMMAND names another program.',
  // 503 until its warm-up is done.
  healthPaths: ['/health'],
  metricsPath: '/metrics',
  metrics: {
    running: 'sglang:num_running_reqs',
    waiting: 'sglang:num_queue_reqs',
    kvCacheUsage: 'sglang:token_usage',
    generatedTokens: 'sglang:generation_tokens_total',
    preemptions: 'sglang:num_retracted_requests_total',
    // The counters of tokens grow only when a request ends.
    progress: [
      'sglang:realtime_tokens_total',
      'sglang:inter_token_latency_seconds_count',
      'sglang:time_to_first_token_seconds_count',
    ],
  },
  // Without the flag SGLang computes the number from its memory: hundreds and more.
  sideBySide: { flag: WORDS.maxSequences, usual: 256 },
  gpusFlag: '--tensor-parallel-size',
  cachedTokensFlag: '--enable-cache-report',
  vllmVariables: {
    MAX_MODEL_LEN: (value) => [['--context-length', String(readTokens(value))]],
    MAX_NUM_SEQS: (value) => [['--max-running-requests', value]],
    MAX_LORAS: (value) => [['--max-loras-per-batch', value]],
    TOKENIZER: (value) => [['--tokenizer-path', value]],
  },
  phaseOf,
  explainExit: (exitCode, lastLines) => explainBy(RULES, exitCode, lastLines),
  decisiveFailure: (line) => decisiveBy(RULES, line),
};

const PHASES: [RegExp, EnginePhase][] = [
  [/^server_args=|^Init torch distributed/, 'starting'],
  [/^Downloading|^Fetching \d+ files|\.(?:safetensors|bin):\s+\d+%/, 'downloading'],
  [
    /^Load weight (?:begin|end)|Loading \S+ checkpoint shards|Multi-thread loading (?:pt checkpoint )?shards/,
    'loading',
  ],
  [/^Capture .*graphs? begin|^Capturing batches/, 'capturing'],
  [/^Memory pool end|Cache is allocated|^max_total_num_tokens=/, 'warming'],
  [/fired up and ready to roll/, 'ready'],
];

/** Returns the step that a line shows: `[2026-11-28 09:08:51 TP0] Load weight begin. avail mem=78.50 GB`. */
function phaseOf(line: string): LogPhase | null {
  const detail = line.replace(/^\[\d{4}-[^\]]*\]\s*/, '').trim();
  const found = PHASES.find(([pattern]) => pattern.test(detail));
  if (!found) return null;
  const progress = progressIn(detail);
  return { phase: found[1], detail: detail.slice(0, 200), ...(progress ? { progress } : {}) };
}

const RULES: FailureRule[] = [
  {
    pattern: /No module named '?sglang/,
    kind: 'bad_configuration',
    cause: 'SGLang is not installed for this Python',
    advice: 'Use an image with SGLang in it, or install it with "pip install sglang".',
  },
  {
    pattern: /context_length \((\d+)\) is greater than the derived context_length \((\d+)\)/,
    kind: 'bad_configuration',
    cause: 'a context of $1 tokens is more than the model can do',
    advice: 'Set MAX_MODEL_LEN or --context-length to $2 or less.',
  },
  {
    pattern: /Not enough memory\. Please try to increase --mem-fraction-static/,
    kind: 'out_of_memory',
    cause: 'the memory does not suffice for the model and its KV cache',
    advice:
      'Raise --mem-fraction-static (MEM_FRACTION_STATIC), use more GPUs with --tensor-parallel-size, or a smaller model.',
  },
  ...commonRules(WORDS),
  {
    pattern: /Capture .*graph failed: (.*)/i,
    kind: 'transient',
    cause: 'its graphs could not be captured: $1',
    advice: 'Lower MEM_FRACTION_STATIC: capturing needs memory too.',
  },
  {
    pattern: /^((?:\w+\.)*\w+(?:Error|Exception): .*)/,
    kind: 'transient',
    cause: '$1',
    advice: 'The lines of the log before it say more.',
  },
  {
    pattern: /Received sigquit from a child process|SIGQUIT received/,
    kind: 'transient',
    cause: 'one of its processes died',
    advice: 'Often the memory of the machine ran out: look for "Out of memory" in the kernel log.',
  },
];
