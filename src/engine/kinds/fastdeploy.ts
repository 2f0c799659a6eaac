import type { EngineDescription, LogPhase } from './description.ts';
import { commonRules, decisiveBy, explainBy, type FailureRule } from './failures.ts';
import { progressIn } from './log-phases.ts';
import type { EnginePhase } from './report.ts';
import { VLLM_WORDS } from './vllm.ts';

/** Returns FastDeploy's metrics port. FastDeploy listens on four ports: the API's and the three after it. */
const metricsPort = (port: number) => port + 1;

const MODULE = 'fastdeploy.entrypoints.openai.api_server';

/** FastDeploy's `fastdeploy.entrypoints.openai.api_server`, by the documentation and source of 2.3; not tested here. */
export const fastdeploy: EngineDescription = {
  name: 'fastdeploy',
  title: 'FastDeploy',
  command: ({ serveCommand, model, host, port, servedModelName, extraArgs }) => {
    const [program, ...first] = serveCommand ?? ['python3', '-m', MODULE];
    const ports = { port, 'metrics-port': metricsPort(port), 'engine-worker-queue-port': port + 2 };
    const flags = { model, host, ...ports, 'cache-queue-port': port + 3 };
    const named = servedModelName ? ['--served-model-name', servedModelName] : [];
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
    return { program, args: [...first, ...args, ...named, ...extraArgs] };
  },
  usesGpu: true,
  loadsAdapters: false,
  canSleep: false,
  goesOnFromIds: false,
  keepsWeights: false,
  readsPrefilled: false,
  hasChatAlone: true,
  keyVariable: 'FD_API_KEY',
  installHelp:
    'Use an image with FastDeploy in it, or install "fastdeploy-gpu"; VLLM_SERVE_COMMAND names another program.',
  // 404 means that the engine is not up, 304 that its workers are dead: only 200 is healthy.
  healthPaths: ['/health'],
  metricsPath: '/metrics',
  metricsPort,
  metrics: {
    running: 'fastdeploy:num_requests_running',
    waiting: 'fastdeploy:num_requests_waiting',
    kvCacheUsage: 'fastdeploy:gpu_cache_usage_perc',
    generatedTokens: 'fastdeploy:generation_tokens_total',
    progress: ['fastdeploy:generation_tokens_total', 'fastdeploy:prompt_tokens_total'],
  },
  sideBySide: { flag: VLLM_WORDS.maxSequences, usual: 8 },
  gpusFlag: '--tensor-parallel-size',
  phaseOf,
  // A failed start may exit 0, so an exit that was not requested is a failure whatever its code.
  explainExit: (exitCode, lastLines) => explainBy(RULES, exitCode, lastLines),
  decisiveFailure: (line) => decisiveBy(RULES, line),
};

const PHASES: [RegExp, EnginePhase][] = [
  [/Number of api-server workers|Waiting worker processes ready/, 'starting'],
  [/[Dd]ownloading/, 'downloading'],
  [/Loading (?:Weights|Layers)/, 'loading'],
  [/Worker processes are launched|Launching metrics service/, 'warming'],
  [/Launching chat completion service/i, 'ready'],
];

function phaseOf(line: string): LogPhase | null {
  const found = PHASES.find(([pattern]) => pattern.test(line));
  if (!found) return null;
  const progress = progressIn(line);
  return { phase: found[1], detail: line.trim().slice(0, 200), ...(progress ? { progress } : {}) };
}

const RULES: FailureRule[] = [
  {
    pattern: /No module named '?(?:fastdeploy|paddle)/,
    kind: 'bad_configuration',
    cause: 'FastDeploy is not installed for this Python',
    advice: 'Use an image with FastDeploy in it, or install "fastdeploy-gpu".',
  },
  {
    pattern: /parameter `port`:(\d+) is already in use/,
    kind: 'bad_configuration',
    cause: 'port $1 is in use',
    advice: 'FastDeploy needs VLLM_PORT and the three ports after it: free them or set another VLLM_PORT.',
  },
  {
    pattern: /Failed to initialize FastDeploy LLM engine/,
    kind: 'transient',
    cause: 'its engine could not be initialised',
    advice: 'Its files log/workerlog.0 and log/fastdeploy.log say why.',
  },
  // FastDeploy's flags have vLLM's names.
  ...commonRules({ ...VLLM_WORDS, withoutGpu: undefined, help: `python3 -m ${MODULE} --help` }),
];
