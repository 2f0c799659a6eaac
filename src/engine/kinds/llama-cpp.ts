import type { EngineDescription, LogPhase } from './description.ts';
import { explainBy, type FailureRule } from './failures.ts';
import { progressIn } from './log-phases.ts';
import type { EnginePhase } from './report.ts';
import { readTokens } from './vllm-values.ts';

const SLOTS = '--parallel';
const SLOTS_SHORT = '-np';
/** The slots of a server that is not told their number. */
const USUAL_SLOTS = 4;

/** llama.cpp's `llama-server`. Checked against build 10434, of August 2026. */
export const llamaCpp: EngineDescription = {
  name: 'llama-cpp',
  title: 'llama.cpp',
  command: ({ serveCommand, model, host, port, servedModelName, extraArgs }) => {
    const [program, ...first] = serveCommand ?? ['llama-server'];
    // Not --model-url: without its download, the server becomes a healthy router that has no model.
    const source = /^[./~]|\.gguf$/i.test(model) ? '--model' : '--hf-repo';
    const where = ['--host', host, '--port', String(port)];
    const named = servedModelName ? ['--alias', servedModelName] : [];
    return { program, args: [...first, source, model, ...where, ...named, '--metrics', ...extraArgs] };
  },
  usesGpu: true,
  loadsAdapters: false,
  canSleep: false,
  goesOnFromIds: false,
  keepsWeights: false,
  readsPrefilled: false,
  // llama.cpp's events of `/v1/responses` have no sequence numbers, and it drops the fields that it does not know.
  hasChatAlone: true,
  keyVariable: 'LLAMA_API_KEY',
  installHelp:
    'Install or build llama.cpp, or use an image with its server in it; VLLM_SERVE_COMMAND names another program, ' +
    "such as /app/llama-server in the images of llama.cpp's authors.",
  healthPaths: ['/health'],
  metricsPath: '/metrics',
  metrics: {
    running: 'llamacpp:requests_processing',
    waiting: 'llamacpp:requests_deferred',
    // Builds since 2025 do not have it.
    kvCacheUsage: 'llamacpp:kv_cache_usage_ratio',
    generatedTokens: 'llamacpp:tokens_predicted_total',
    // The counters of tokens grow only when a request ends.
    progress: ['llamacpp:n_decode_total'],
  },
  usualFlags: ({ model, servedModelName }, env, isAsked) => [
    // Without an alias it answers to the name of the model's file.
    ...(servedModelName ? [] : [flag('--alias', model)]),
    // More slots than the usual ones share its context as those do.
    ...(jobsOf(env) > USUAL_SLOTS && !isAsked(SLOTS) && !isAsked(SLOTS_SHORT)
      ? [flag(SLOTS, String(jobsOf(env))), flag('--kv-unified')]
      : []),
  ],
  sideBySide: { flag: SLOTS, short: SLOTS_SHORT, usual: USUAL_SLOTS },
  vllmVariables: {
    // llama.cpp divides its context among the slots, while vLLM's length is that of each request.
    MAX_MODEL_LEN: (value, env) => {
      const said = slotsIn(env.VLLM_EXTRA_ARGS) ?? (env.MAX_NUM_SEQS?.trim() || env.PARALLEL?.trim());
      const slots = said ? readSlots(said) : Math.max(jobsOf(env), USUAL_SLOTS);
      const context = ['--ctx-size', String(readTokens(value) * slots)];
      // Told no number, its slots share one context, and requests fail once it is full.
      return said ? [context] : [context, [SLOTS, String(slots)]];
    },
    MAX_NUM_SEQS: (value) => [[SLOTS, String(readSlots(value))]],
    SERVED_MODEL_NAME: (value) => [['--alias', value]],
  },
  phaseOf,
  explainExit: (exitCode, lastLines) => explainBy(RULES, exitCode, lastLines),
  // The server ends after every failure of a start, and goes on without a GPU that CUDA cannot use.
  decisiveFailure: () => null,
};

function flag(name: `--${string}`, ...values: string[]): [`--${string}`, ...string[]] {
  return [name, ...values];
}

/** Returns the jobs that the worker takes at a time; 0: they follow from the engine's slots. */
function jobsOf({ CASOLA_MAX_JOBS: jobs = '' }: NodeJS.ProcessEnv): number {
  return /^\s*\d{1,6}\s*$/.test(jobs) ? Number(jobs) : 0;
}

/** Returns the slots that further arguments ask for, if they do. */
function slotsIn(extraArgs = ''): string | undefined {
  return [...extraArgs.matchAll(/(?:^|\s)(?:--parallel|-np)[=\s]+(\d+)/g)].at(-1)?.[1];
}

function readSlots(value: string): number {
  if (!/^[1-9]\d{0,5}$/.test(value)) throw new Error('expected a number of requests, from 1');
  return Number(value);
}

const PHASES: [RegExp, EnginePhase][] = [
  [/^Downloading|common_download/, 'downloading'],
  [/load_model: loading model|load_tensors: loading model tensors/, 'loading'],
  [/warming up the model/, 'warming'],
  [/llama_server: (?:model loaded|listening on)/, 'ready'],
];

function phaseOf(line: string): LogPhase | null {
  const detail = line.replace(/^\d+(?:\.\d+){3} \w /, '').trim();
  const found = PHASES.find(([pattern]) => pattern.test(detail));
  if (!found) return null;
  const progress = progressIn(detail);
  return { phase: found[1], detail: detail.slice(0, 200), ...(progress ? { progress } : {}) };
}

const MODEL_ADVICE =
  'Set VLLM_MODEL to a .gguf file of this machine, or to owner/name or owner/name:quantization on Hugging Face.';

/** The last words of llama.cpp; the most telling rule comes first. */
const RULES: FailureRule[] = [
  {
    pattern: /error: invalid argument: (.*)/,
    kind: 'bad_configuration',
    cause: 'the engine does not know the argument $1',
    advice: 'Correct VLLM_EXTRA_ARGS; "llama-server --help" lists every argument.',
  },
  {
    pattern: /error while handling argument "([^"]+)": sto\w+/,
    kind: 'bad_configuration',
    cause: 'the engine does not accept the value of $1: it expects a number',
    advice: 'Correct VLLM_EXTRA_ARGS; "llama-server --help" lists the values it takes.',
  },
  {
    pattern: /error while handling argument "([^"]+)": (?:error: )?(.*)/,
    kind: 'bad_configuration',
    cause: 'the engine does not accept the value of $1: $2',
    advice: 'Correct VLLM_EXTRA_ARGS; "llama-server --help" lists the values it takes.',
  },
  {
    pattern: /couldn't bind HTTP server socket/,
    kind: 'bad_configuration',
    cause: "the engine's port is in use",
    advice: 'Stop what listens there or set another VLLM_PORT.',
  },
  {
    pattern:
      /insufficient memory|out of memory|OutOfDeviceMemory|OutOfHostMemory|unable to allocate|failed to allocate (?:\S+ )?buffer|std::bad_alloc/,
    kind: 'out_of_memory',
    cause: 'the memory does not suffice for the model and its context',
    advice:
      'Set a smaller MAX_MODEL_LEN or MAX_NUM_SEQS, a quantized --cache-type-k and --cache-type-v, or fewer ' +
      '--gpu-layers in VLLM_EXTRA_ARGS; or use a smaller quantization of the model.',
  },
  {
    pattern: /failed to open GGUF file '([^']*)' \(([^)]*)\)/,
    kind: 'bad_model',
    cause: 'the file $1 cannot be opened: $2',
    advice: MODEL_ADVICE,
  },
  {
    pattern: /unknown model architecture: '([^']*)'/,
    kind: 'bad_model',
    cause: 'this build of llama.cpp does not know the architecture $1',
    advice: 'Use a newer build, or another model.',
  },
  {
    pattern: /invalid magic|failed to read (?:magic|key-value pairs|tensor)|tensor data is not within/,
    kind: 'bad_model',
    cause: 'the model is no GGUF file, or a damaged one',
    advice: `Download it again. ${MODEL_ADVICE}`,
  },
  {
    pattern: /GET failed \(40[13]\)/,
    kind: 'bad_model',
    cause: 'the model does not exist, or asks for a Hugging Face account that may read it',
    advice: 'Check VLLM_MODEL, accept the licence of the model on its page, and set HF_TOKEN.',
  },
  {
    pattern: /GET failed \(404\)|invalid HF repo format|no GGUF files? found/i,
    kind: 'bad_model',
    cause: 'there is no such model',
    advice: MODEL_ADVICE,
  },
  {
    pattern: /GET failed \((\d+)\)|HTTPLIB failed|failed to fetch model metadata/,
    kind: 'transient',
    cause: 'the model is not on this machine and could not be downloaded: $0',
    advice: 'Check the connection to Hugging Face, or set VLLM_MODEL to a .gguf file of this machine.',
  },
  {
    pattern: /failed to load model, ''/,
    kind: 'bad_model',
    cause: 'the model is not on this machine',
    advice: MODEL_ADVICE,
  },
  {
    pattern: /failed to load lora adapter '([^']*)'/,
    kind: 'bad_configuration',
    cause: 'the adapter $1 cannot be loaded',
    advice: 'Correct --lora in VLLM_EXTRA_ARGS: it takes adapters in the form of GGUF for this model.',
  },
  {
    pattern: /failed to (?:load model, .*|create_context with model .*)/,
    kind: 'bad_model',
    advice: 'The lines of the log before it say why.',
  },
  {
    pattern: /CUDA error: (.*)/,
    kind: 'transient',
    cause: 'the GPU reported an error: $1',
    advice: 'Check nvidia-smi and the driver; if it stays, the machine may be bad.',
  },
];
