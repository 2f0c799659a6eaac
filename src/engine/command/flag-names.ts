import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../process/index.ts';
import { editDistance } from '../../protocol/text.ts';

/**
 * Names that people know from other workers, with our name, or the engine's, for the same thing; the first one given
 * counts.
 */
const FAMILIAR: readonly [familiar: string, name: string][] = [
  ['MODEL_NAME', 'VLLM_MODEL'],
  ['MODEL', 'VLLM_MODEL'],
  ['MODEL_REVISION', 'REVISION'],
  ['TOKENIZER_NAME', 'TOKENIZER'],
  ['OPENAI_SERVED_MODEL_NAME_OVERRIDE', 'SERVED_MODEL_NAME'],
  ['OPENAI_RESPONSE_ROLE', 'RESPONSE_ROLE'],
  ['CUSTOM_CHAT_TEMPLATE', 'CHAT_TEMPLATE'],
  ['MAX_MODEL_LENGTH', 'MAX_MODEL_LEN'],
  ['VLLM_CONFIG_FILE', 'CONFIG'],
  ['MAX_CONCURRENCY', 'CASOLA_MAX_JOBS'],
];
const FAMILIAR_NAMES: ReadonlySet<string> = new Set(FAMILIAR.map(([familiar]) => familiar));

/** Variables of other workers that this one ignores, with the reason. */
const OF_NO_USE: Record<string, string> = {
  WORKER_CUDA_VERSION: 'an image has the CUDA of its engine, which its tag says',
  REQUEST_TIMEOUT: 'executionTimeout of a job or of its endpoint bounds it',
  VLLM_BASE_URL:
    'VLLM_HOST and VLLM_PORT say where the engine listens, ENGINE_URL names one that runs already',
};
const NAMES_OF_NO_USE: ReadonlySet<string> = new Set(Object.keys(OF_NO_USE));

/** Returns why a name is ignored; undefined: it is not. */
export function whyOfNoUse(name: string): string | undefined {
  return OF_NO_USE[name];
}

/** The values by which RunPod's forms say that a variable is not set. */
const UNSET: Record<string, string> = { MAX_NUM_BATCHED_TOKENS: '0', QUANTIZATION: 'None' };

/** The volume that RunPod mounts, and the folder on it that keeps models. */
const VOLUME = '/runpod-volume';
const MODEL_CACHE = 'huggingface-cache';
/** The file that is written when a model is put into an image. */
const BAKED_FILE = '/local_model_args.json';

/** The variables of environment and image, under the names that the rest of the program uses. */
export interface SettledEnvironment {
  env: NodeJS.ProcessEnv;
  /** The sources of values that did not come from the variable of that name, for people. */
  origins: ReadonlyMap<string, string>;
  warnings: string[];
}

/**
 * Returns the environment, on top of the variables of a baked image, with familiar names replaced by ours.
 * @throws UserError when the baked file cannot be read
 */
export function readSettledEnvironment(env: NodeJS.ProcessEnv): SettledEnvironment {
  const file = env.LOCAL_MODEL_ARGS?.trim() || BAKED_FILE;
  return settleEnvironment(env, readBaked(file), file, existsSync);
}

/** Merges environment and baked variables; pure. @param baked variables that the image was built with, from `file` */
export function settleEnvironment(
  env: NodeJS.ProcessEnv,
  baked: Record<string, string>,
  file: string,
  exists: (path: string) => boolean,
): SettledEnvironment {
  const warnings: string[] = [];
  const upper = inOurNames(env, '', warnings);
  const lower = withoutOtherModel(upper, inOurNames(baked, ` in ${file}`, warnings), file, warnings);
  // The environment's name for the model takes precedence over the image's, whichever of our names it uses.
  if (upper.env.VLLM_SERVED_MODEL_NAME !== undefined) delete lower.env.SERVED_MODEL_NAME;
  const origins = new Map([...lower.origins, ...upper.origins]);
  for (const name of Object.keys(upper.env)) if (!upper.origins.has(name)) origins.delete(name);
  // An empty variable stays if no value lies beneath it: an empty CUDA_VISIBLE_DEVICES means no GPU.
  const merged: NodeJS.ProcessEnv = { ...env, ...lower.env, ...upper.env };
  for (const [name, unset] of Object.entries(UNSET)) if (merged[name]?.trim() === unset) delete merged[name];
  const base = merged.BASE_PATH?.trim() || (exists(VOLUME) ? VOLUME : null);
  if (base !== null && !merged.HF_HOME?.trim()) {
    merged.HF_HOME = join(base, MODEL_CACHE);
    origins.set('HF_HOME', merged.BASE_PATH?.trim() ? 'BASE_PATH' : VOLUME);
  }
  const { ENGINE, ENGINE_URL } = merged;
  if (ENGINE?.trim() && ENGINE !== 'external' && ENGINE_URL?.trim()) {
    warnings.push(
      `ENGINE_URL is ignored: ENGINE=${ENGINE} starts an engine here; leave ENGINE out to attach to the one that runs there`,
    );
  }
  return { env: merged, origins, warnings };
}

interface Layer {
  env: NodeJS.ProcessEnv;
  origins: Map<string, string>;
}

/** Returns variables under our names. Empty variables count as unset, since they would hide what lies beneath. */
function inOurNames(given: NodeJS.ProcessEnv, where: string, warnings: string[]): Layer {
  const isSet = ([name, value]: [string, string | undefined]) =>
    value?.trim() && value.trim() !== UNSET[name];
  const env = Object.fromEntries(Object.entries(given).filter(isSet));
  const origins = new Map(where ? Object.keys(env).map((name) => [name, name + where]) : []);
  for (const [familiar, name] of FAMILIAR) {
    const value = env[familiar];
    if (value === undefined) continue;
    // MAX_CONCURRENCY and CASOLA_CAPACITY are both other names of CASOLA_MAX_JOBS.
    if (familiar === 'MAX_CONCURRENCY' && env.CASOLA_CAPACITY !== undefined) continue;
    if (env[name] === undefined) {
      env[name] = value;
      origins.set(name, familiar + where);
    } else if (env[name] !== value) {
      warnings.push(`${familiar}${where} is ignored: ${origins.get(name) ?? name} says something else`);
    }
  }
  for (const [name, why] of Object.entries(OF_NO_USE)) {
    if (env[name] !== undefined) warnings.push(`${name}${where} is ignored: ${why}`);
  }
  return { env, origins };
}

/** Drops the baked variables if another model is requested, for which they would be wrong. */
function withoutOtherModel(upper: Layer, baked: Layer, file: string, warnings: string[]): Layer {
  const asked = upper.env.VLLM_MODEL;
  if (asked === undefined || baked.env.VLLM_MODEL === undefined) return baked;
  if (asked === baked.env.VLLM_MODEL) return baked;
  if (asked === baked.env.SERVED_MODEL_NAME) {
    // The environment names the baked model by its public name, and its files are here.
    delete upper.env.VLLM_MODEL;
    upper.origins.delete('VLLM_MODEL');
    return baked;
  }
  warnings.push(
    `${upper.origins.get('VLLM_MODEL') ?? 'VLLM_MODEL'} names another model than the one in this image: ${file} is ignored`,
  );
  return { env: {}, origins: new Map() };
}

function readBaked(file: string): Record<string, string> {
  if (!existsSync(file)) return {};
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UserError(`${file} cannot be read: ${(error as Error).message}. Build the image again.`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new UserError(`${file} holds no JSON object of variables. Build the image again.`);
  }
  const given = Object.entries(parsed).filter(([, value]) => value !== null);
  return Object.fromEntries(
    given.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}

/** Flags that this project sets itself, or that would move the engine to an address where the worker does not look. */
const NEVER_FLAGS = words('HOST PORT API_KEY HELP UDS MODEL MODEL_TAG HF_TOKEN LOG_LEVEL VERSION');

/** Matches variables of systems, platforms and tools, which are never flags, whatever they resemble. */
const FOREIGN_PREFIXES =
  /^(?:VLLM|FD|SGLANG|SGL|LLAMA|GGML|CASOLA|ENGINE|WORKER_(?:VLLM|SPOOL|PAYLOAD)|QUEUE|RUNPOD|VAST|NVIDIA|NV|CUDA|NCCL|HF(?!_OVERRIDES$|_CONFIG_PATH$)|HUGGINGFACE|TRANSFORMERS|TORCH|PYTORCH|TRITON|OMP|MKL|OPENBLAS|KMP|OTEL|KUBERNETES|XDG|SSH|LC|LD|LESS|GPG|DBUS|SYSTEMD|PYTHON\w*|PIP|UV|CONDA|NPM|NODE(?!_RANK$)|GIT|CLOUD|CLOUDSDK|CURL|REQUESTS|AWS|AZURE|GOOGLE|GCP|DOCKER|DEBIAN|JUPYTER|VITEST|CONTAINER|TINI)(?:_|$)/;
const FOREIGN = words(`
  PATH HOME USER LOGNAME SHELL PWD OLDPWD TERM COLORTERM TERM_PROGRAM TERM_PROGRAM_VERSION HOSTNAME HOSTTYPE LANG
  LANGUAGE TZ SHLVL MAIL EDITOR VISUAL PAGER MANPATH TMPDIR TEMP TMP DISPLAY INIT_CWD COLOR LINES COLUMNS NO_COLOR
  FORCE_COLOR CI DEBUG INVOCATION_ID JOURNAL_STREAM VIRTUAL_ENV LS_COLORS HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY
  SSL_CERT_FILE SSL_CERT_DIR LIBRARY_PATH PUBLIC_KEY LOG_FORMAT DO_NOT_TRACK EXIT_ON_ERROR TEST PROD DEV MODE
  NODE_ENV BASE_PATH GPU_CHECK LOCAL_MODEL_ARGS MAX_CONCURRENCY DEFAULT_BATCH_SIZE DEFAULT_MIN_BATCH_SIZE
  DEFAULT_BATCH_SIZE_GROWTH_FACTOR ALLOW_OPENAI_FORMAT RAW_OPENAI_OUTPUT`);
/** Matches variables by which Kubernetes and Docker links describe the services beside this one. */
const SERVICE_LINK = /_SERVICE_(?:HOST|PORT)(?:_\w+)?$|_PORT_\d+_(?:TCP|UDP)(?:_\w+)?$/;

/** Flags that users of other workers still set, and what replaced them. A flag that the engine still has counts. */
const REMOVED: Record<string, string> = {
  DISABLE_LOG_REQUESTS: 'requests are not logged unless ENABLE_LOG_REQUESTS=true',
  MAX_PARALLEL_LOADING_WORKERS: 'the engine decides by itself',
  SWAP_SPACE: 'the engine no longer swaps; CPU_OFFLOAD_GB and KV_OFFLOADING_SIZE are its relatives',
  VLLM_CPU_FRACTION: 'the engine decides by itself',
  MAX_CONTEXT_LEN_TO_CAPTURE: 'use MAX_CUDAGRAPH_CAPTURE_SIZE',
  MAX_SEQ_LEN_TO_CAPTURE: 'use MAX_CUDAGRAPH_CAPTURE_SIZE',
  GUIDED_DECODING_BACKEND: 'use STRUCTURED_OUTPUTS_CONFIG',
  SPECULATIVE_MODEL: 'use SPECULATIVE_CONFIG',
  NUM_SPECULATIVE_TOKENS: 'use SPECULATIVE_CONFIG',
  SPECULATIVE_METHOD: 'use SPECULATIVE_CONFIG',
  SPECULATIVE_MAX_MODEL_LEN: 'use SPECULATIVE_CONFIG',
  SPECULATIVE_DRAFT_TENSOR_PARALLEL_SIZE: 'use SPECULATIVE_CONFIG',
  SPECULATIVE_DISABLE_BY_BATCH_SIZE: 'use SPECULATIVE_CONFIG',
  NGRAM_PROMPT_LOOKUP_MAX: 'use SPECULATIVE_CONFIG',
  NGRAM_PROMPT_LOOKUP_MIN: 'use SPECULATIVE_CONFIG',
  SPEC_DECODING_ACCEPTANCE_METHOD: 'use SPECULATIVE_CONFIG',
  TYPICAL_ACCEPTANCE_SAMPLER_POSTERIOR_THRESHOLD: 'use SPECULATIVE_CONFIG',
  TYPICAL_ACCEPTANCE_SAMPLER_POSTERIOR_ALPHA: 'use SPECULATIVE_CONFIG',
  SCHEDULER_DELAY_FACTOR: 'the engine decides by itself',
  NUM_LOOKAHEAD_SLOTS: 'the engine decides by itself',
  PREEMPTION_MODE: 'the engine decides by itself',
  PREEMPTION_CHECK_PERIOD: 'the engine decides by itself',
  PREEMPTION_CPU_CAPACITY: 'the engine decides by itself',
  TOKENIZER_POOL_SIZE: 'the engine has no such pool',
  TOKENIZER_POOL_TYPE: 'the engine has no such pool',
  TOKENIZER_POOL_EXTRA_CONFIG: 'the engine has no such pool',
  LORA_EXTRA_VOCAB_SIZE: 'adapters with words of their own are not served',
  LONG_LORA_SCALING_FACTORS: 'such adapters are not served',
  QUANTIZATION_PARAM_PATH: 'the scales come with the model',
  DISABLE_LOGGING_REQUEST: 'requests are not logged unless ENABLE_LOG_REQUESTS=true',
  NUM_SCHEDULER_STEPS: 'the engine decides by itself',
  USE_V2_BLOCK_MANAGER: 'the engine has only one now',
  WORKER_USE_RAY: 'use DISTRIBUTED_EXECUTOR_BACKEND',
  ENGINE_USE_RAY: 'use DISTRIBUTED_EXECUTOR_BACKEND',
  ROPE_SCALING: 'use HF_OVERRIDES',
  ROPE_THETA: 'use HF_OVERRIDES',
  DEVICE: 'the engine finds out by itself',
  TASK: 'use RUNNER and CONVERT',
};

/** vLLM's flags that people set whatever the engine: an engine that lacks one must not drop it silently. */
export const WELL_KNOWN = words(`
  MAX_MODEL_LEN GPU_MEMORY_UTILIZATION TENSOR_PARALLEL_SIZE PIPELINE_PARALLEL_SIZE DATA_PARALLEL_SIZE MAX_NUM_SEQS
  MAX_NUM_BATCHED_TOKENS QUANTIZATION DTYPE KV_CACHE_DTYPE BLOCK_SIZE CPU_OFFLOAD_GB LOAD_FORMAT DOWNLOAD_DIR REVISION
  TOKENIZER TOKENIZER_MODE TOKENIZER_REVISION SERVED_MODEL_NAME CHAT_TEMPLATE TRUST_REMOTE_CODE HF_OVERRIDES
  GENERATION_CONFIG OVERRIDE_GENERATION_CONFIG ENFORCE_EAGER ENABLE_PREFIX_CACHING ENABLE_CHUNKED_PREFILL
  ENABLE_EXPERT_PARALLEL ENABLE_LORA LORA_MODULES MAX_LORAS MAX_LORA_RANK ENABLE_AUTO_TOOL_CHOICE TOOL_CALL_PARSER
  REASONING_PARSER SPECULATIVE_CONFIG COMPILATION_CONFIG STRUCTURED_OUTPUTS_CONFIG LIMIT_MM_PER_PROMPT
  ATTENTION_BACKEND DISTRIBUTED_EXECUTOR_BACKEND`);

/** Tells whether a variable might be a flag, judged by its name; only the engine's own list can decide. */
export function mayBeFlag(name: string): boolean {
  if (Object.hasOwn(REMOVED, name)) return true;
  if (!/^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*$/.test(name) || SERVICE_LINK.test(name)) return false;
  return (
    ![NEVER_FLAGS, FOREIGN, FAMILIAR_NAMES, NAMES_OF_NO_USE].some((names) => names.has(name)) &&
    !FOREIGN_PREFIXES.test(name)
  );
}

/** Returns the hint for a variable that was a flag once; null for all others. */
export function whatBecameOf(name: string): string | null {
  return Object.hasOwn(REMOVED, name) ? REMOVED[name]! : null;
}

/** Tells whether people mean a flag by this name, even if their engine does not have it. */
export function isWellKnown(name: string): boolean {
  return WELL_KNOWN.has(name);
}

/**
 * Returns the flags, in capitals, that a name may have been meant for, nearest first: at most two letters differ, and
 * one word is the same.
 */
export function nearest(name: string, known: Iterable<string>): string[] {
  const parts = new Set(name.split('_'));
  return [...known]
    .filter((flag) => Math.abs(flag.length - name.length) <= MOST_LETTERS_OFF)
    .filter((flag) => flag.split('_').some((part) => parts.has(part)))
    .map((flag) => ({ flag, off: editDistance(name, flag) }))
    .filter(({ off }) => off <= MOST_LETTERS_OFF)
    .sort((a, b) => a.off - b.off)
    .slice(0, 3)
    .map(({ flag }) => flag);
}
const MOST_LETTERS_OFF = 2;

function words(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}
