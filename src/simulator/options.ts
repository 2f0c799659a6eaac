import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { DIALECTS, type DialectName } from './dialect.ts';
import { noFaults, setFaultFromText } from './faults.ts';
import { type KvTransferConfig, readKvTransferConfig } from './kv-cache.ts';
import { readScriptFile, type Script } from './script.ts';

/**
 * This file lists flags of `vllm serve` that the simulator accepts and ignores, so that a command line made for vLLM
 * works here too. A flag in no list is refused as vLLM refuses it. The names are those of vLLM 0.32.0's `--help=all`
 * that people use, not all 316.
 */

/** The flags with pairs `--x`, `--no-x`. */
const IGNORED_SWITCHES = words(`
  async-scheduling cudagraph-metrics disable-cascade-attn disable-custom-all-reduce disable-fastapi-docs
  disable-sliding-window enable-auto-tool-choice enable-chunked-prefill enable-eplb enable-expert-parallel
  enable-log-outputs enable-log-requests enable-per-request-metrics enable-prefix-caching
  enable-request-id-headers enable-server-load-tracking
  enforce-eager fail-on-environ-validation fully-sharded-loras kv-cache-metrics
  language-model-only ray-workers-use-nsight skip-mm-profiling skip-tokenizer-init trust-remote-code use-tqdm-on-load`);

/** Flags that are given or not. */
const IGNORED_STORE_TRUE = words('aggregate-engine-logging disable-log-stats headless');

/** Flags with exactly one value. */
const IGNORED_VALUES = words(`
  allowed-headers allowed-methods allowed-origins api-server-count attention-backend block-size chat-template
  chat-template-content-format compilation-config config config-format cpu-offload-gb
  data-parallel-address data-parallel-size decode-context-parallel-size default-chat-template-kwargs
  device-ids disable-access-log-for-endpoints distributed-executor-backend download-dir dtype
  generation-config gpu-memory-utilization hf-config-path hf-overrides hf-token kv-cache-dtype
  kv-cache-memory-bytes kv-events-config kv-offloading-backend kv-offloading-size
  limit-mm-per-prompt load-format log-level logging-config lora-dtype max-cpu-loras max-cudagraph-capture-size
  max-log-len max-logprobs max-lora-rank max-loras max-num-batched-tokens max-num-queued-tokens max-parallel-loading-workers
  media-io-kwargs middleware mm-processor-cache-gb mm-processor-kwargs model-impl
  model-loader-extra-config moe-backend nnodes node-rank num-gpu-blocks-override optimization-level
  otlp-traces-endpoint override-generation-config pipeline-parallel-size pooler-config quantization
  reasoning-parser response-role revision root-path runner safetensors-load-strategy scheduling-policy
  seed shutdown-timeout speculative-config sse-keep-alive-interval stream-interval
  structured-outputs-config tensor-parallel-size tokenizer tokenizer-mode tokenizer-revision
  tool-call-parser tool-parser-plugin uvicorn-log-level`);

/** Flags with one value or more. */
const IGNORED_LISTS = words(`
  allowed-media-domains cudagraph-capture-sizes logits-processors lora-modules lora-target-modules`);

/** Short forms, as vLLM has them. */
const SHORT_FORMS: Record<string, string> = {
  '-tp': '--tensor-parallel-size',
  '-pp': '--pipeline-parallel-size',
  '-dp': '--data-parallel-size',
  '-q': '--quantization',
  '-cc': '--compilation-config',
  '-sc': '--speculative-config',
};

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

/**
 * Prints all flags in the form of `vllm serve --help=all`, which is Python's argparse: a supervisor learns the flags of
 * either engine from the same shape.
 */
function argparseHelp(command: Command): string {
  const positive = command.options.filter((option) => !option.negate);
  const negated = new Set(command.options.filter((option) => option.negate).map((option) => option.long));
  const lines = positive.map((option) => lineOf(option, negated.has(`--no-${option.long?.slice(2)}`)));
  return ['usage: vllm serve [model_tag] [options]', '', 'options:', ...lines].join('\n');
}

function lineOf(option: Option, isPair: boolean): string {
  const name = option.long ?? option.flags;
  const value = name.slice(2).replaceAll('-', '_').toUpperCase();
  const description = option.description === '' ? '' : `\n                        ${option.description}`;
  if (isPair) return `  ${name}, --no-${name.slice(2)}${description}`;
  if (!option.required) return `  ${name}${description}`;
  return `  ${name} ${value}${option.variadic ? ` [${value} ...]` : ''}${description}`;
}

/** The options of the command line, by the names of `vllm serve`. */
export type SimulatorOptions = ReturnType<typeof defaultOptions>;

export function defaultOptions() {
  return {
    /** The engine whose routes, metrics and errors the simulator shows. */
    dialect: 'vllm' as DialectName,
    /** The name or path of the model, as vLLM's positional argument. */
    model: 'simulated-model',
    /** The names of the model in requests; the first is the one in answers. */
    servedModelName: [] as string[],
    host: '127.0.0.1',
    /** The port; 0 asks the system for a free one. */
    port: 8000,
    /** The port of the metrics, in the dialect of an engine that has one. */
    metricsPort: 0,
    /** The most tokens of prompt and answer together. */
    maxModelLen: 32_768,
    /** The most sequences generated concurrently; further ones wait. */
    maxNumSeqs: 256,
    /** The most sequences running and waiting together; more are refused with 503. Null: no limit. */
    maxNumQueuedReqs: null as number | null,
    /** The bearer tokens that guard `/v1`; none: no guard. */
    apiKey: [] as string[],
    timeToFirstTokenMs: 0,
    interTokenLatencyMs: 0,
    /** The duration of all phases of the start together, s. */
    startupSeconds: 0,
    /** Whether the engine can put its weights aside, by routes of VLLM_SERVER_DEV_MODE. */
    enableSleepMode: false,
    /** Whether requests and answers may be token ids (`/inference/v1/generate`). */
    enableScaleOut: false,
    /** Whether usage says how many tokens of the prompt were computed before. */
    enablePromptTokensDetails: false,
    /** Whether adapters can be loaded. */
    enableLora: false,
    /** Whether the routes of `VLLM_ALLOW_RUNTIME_LORA_UPDATING` load adapters. */
    loraRoutes: false,
    /** The settings for reading the caches of other engines; null: they are not read. */
    kvTransferConfig: null as KvTransferConfig | null,
    /** Whether there is `/v1/responses`. */
    responses: true,
    /** The answers that are given in turn; null: they are made up. */
    script: null as Script | null,
    disableUvicornAccessLog: false,
    faults: noFaults(),
  };
}

/** The options of other engines that vLLM has too, under other names. */
interface OfOtherEngines {
  maxConcurrency?: number;
  modelPath?: string;
  contextLength?: number;
  maxRunningRequests?: number;
  enableCacheReport?: boolean;
}

/** The end of a wrong command line (exit 2) or of one that asks for help (exit 0), with the text to be shown. */
export class CommandLineEnd extends Error {
  readonly exitCode: number;
  constructor(text: string, exitCode: number) {
    super(text);
    this.exitCode = exitCode;
  }
}

/**
 * Reads the arguments of `vllm serve` and the simulator's own.
 * @throws CommandLineEnd with the words that vLLM has for the same mistake
 */
export function parseArguments(argv: readonly string[]): SimulatorOptions {
  const options = defaultOptions();
  const command = describeCommand(options);
  if (argv.includes('--help=all')) throw new CommandLineEnd(argparseHelp(command), 0);
  let written = '';
  command.exitOverride().configureOutput({
    writeOut: (text) => {
      written += text;
    },
    writeErr: () => {},
  });
  try {
    command.parse(argv.map(normalize), { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) throw new CommandLineEnd(written.trimEnd(), 0);
    throw new CommandLineEnd(asVllmSays(error.message), 2);
  }
  const given = command.opts<Partial<SimulatorOptions> & OfOtherEngines>();
  const [positional, ...others] = command.args;
  const unrecognized = [positional?.startsWith('-') ? positional : null, ...others].filter(Boolean);
  if (unrecognized.length > 0) {
    throw new CommandLineEnd(`vllm serve: error: unrecognized arguments: ${unrecognized.join(' ')}`, 2);
  }
  const model = positional ?? given.model ?? given.modelPath ?? options.model;
  return {
    ...options,
    ...given,
    model,
    servedModelName: given.servedModelName ?? [model],
    maxModelLen: given.maxModelLen ?? given.contextLength ?? options.maxModelLen,
    maxNumSeqs: given.maxNumSeqs ?? given.maxRunningRequests ?? options.maxNumSeqs,
    enablePromptTokensDetails: given.enablePromptTokensDetails ?? given.enableCacheReport ?? false,
    maxNumQueuedReqs: given.maxNumQueuedReqs ?? given.maxConcurrency ?? null,
    // Commander turns an empty text into null.
    kvTransferConfig: given.kvTransferConfig || null,
    enableSleepMode: given.enableSleepMode === true && process.env.VLLM_SERVER_DEV_MODE === '1',
    loraRoutes: /^(1|true)$/i.test(process.env.VLLM_ALLOW_RUNTIME_LORA_UPDATING ?? ''),
  };
}

function describeCommand(options: SimulatorOptions): Command {
  const command = new Command('simulate')
    .description("Stand-in for 'vllm serve': same flags, routes, logs and metrics; the answers are made up.")
    .argument('[model]', 'name or path of the model')
    .allowUnknownOption()
    .allowExcessArguments()
    .option('--model <name>', 'the model, when not given as the argument')
    .option('--served-model-name <names...>', 'names it answers to')
    .option('--host <host>', 'address to listen on (127.0.0.1)')
    .option('--port <port>', 'port to listen on, 0 for a free one (8000)', whole)
    .option('--max-model-len <tokens>', 'tokens of prompt and answer together (32768)', length)
    .option('--max-num-seqs <count>', 'requests generated side by side (256)', whole)
    .option('--max-num-queued-reqs <count>', 'requests running and waiting together; more get 503', whole)
    .option('--api-key <keys...>', 'tokens that guard /v1')
    .option('--enable-sleep-mode', 'it can sleep')
    .option('--no-enable-sleep-mode', 'it cannot')
    .option('--enable-scale-out', 'token ids can be asked for (/inference/v1/generate)')
    .option('--no-enable-scale-out', 'they cannot')
    .option('--enable-prompt-tokens-details', 'usage says how much of a prompt was computed before')
    .option('--no-enable-prompt-tokens-details', 'it does not')
    .option('--enable-lora', 'adapters can be loaded')
    .option('--no-enable-lora', 'they cannot')
    .option('--kv-transfer-config <json>', 'caches of other engines are read (NixlConnector)', transfer)
    .option('--disable-uvicorn-access-log', 'no line for each request')
    .option('--time-to-first-token-ms <ms>', 'pace: until the first token (0)', amount)
    .option('--inter-token-latency-ms <ms>', 'pace: between two tokens of a stream (0)', amount)
    .option(
      '--script <file>',
      'JSON with the answers to give in turn, tools and reasoning included',
      scripted,
    )
    .option('--no-responses', 'it has no /v1/responses')
    .option('--startup-seconds <s>', 'how long the start takes (0)', amount)
    .addOption(
      new Option('--dialect <engine>', 'whose routes, metrics and errors to show (vllm)').choices(DIALECTS),
    )
    .option(
      '--metrics-port <port>',
      'in the dialect fastdeploy: port of the metrics, 0 for a free one',
      whole,
    )
    .option('--max-concurrency <count>', 'in the dialect fastdeploy: requests at a time; more get 429', whole)
    .option('--model-path <name>', 'in the dialect sglang: the model')
    .option('--context-length <tokens>', 'in the dialect sglang: --max-model-len', length)
    .option('--max-running-requests <count>', 'in the dialect sglang: --max-num-seqs', whole)
    .option('--enable-cache-report', 'in the dialect sglang: --enable-prompt-tokens-details')
    .option('--enable-metrics', 'in the dialect sglang: taken and ignored')
    .option('--engine-worker-queue-port <port>', 'in the dialect fastdeploy: taken and ignored', whole)
    .option('--cache-queue-port <port>', 'in the dialect fastdeploy: taken and ignored', whole)
    .option(
      '--fault <name[=value]>',
      `what goes wrong, may be repeated: ${Object.keys(noFaults()).join(', ')}`,
      (text) => {
        try {
          setFaultFromText(options.faults, text);
        } catch (error) {
          throw new InvalidArgumentError((error as Error).message);
        }
      },
    );
  const hidden = (flags: string) => command.addOption(command.createOption(flags).hideHelp());
  for (const name of IGNORED_SWITCHES) {
    hidden(`--${name}`);
    hidden(`--no-${name}`);
  }
  for (const name of IGNORED_STORE_TRUE) hidden(`--${name}`);
  for (const name of IGNORED_VALUES) hidden(`--${name} <value>`);
  for (const name of IGNORED_LISTS) hidden(`--${name} <values...>`);
  return command.addHelpText('after', '\nOther common flags of vllm serve are taken and ignored.');
}

/** Replaces forms that vLLM also accepts: `--max_model_len` for `--max-model-len`, and short forms of two letters. */
function normalize(argument: string): string {
  const short = SHORT_FORMS[argument];
  if (short) return short;
  const [, name, rest] = /^(--[\w-]+)(.*)$/s.exec(argument) ?? [];
  return name ? name.replace(/_/g, '-').replace(/^-+/, '--') + rest : argument;
}

/** Turns Commander's words for a bad value into argparse's. */
function asVllmSays(message: string): string {
  const invalid = /option '(--[\w-]+)[^']*' argument '(.*?)' is invalid\. (.*)/s.exec(message);
  if (invalid) return `vllm serve: error: argument ${invalid[1]}: ${invalid[3]}: '${invalid[2]}'`;
  const missing = /option '(--[\w-]+)[^']*' argument missing/.exec(message);
  if (missing) return `vllm serve: error: argument ${missing[1]}: expected one argument`;
  return `vllm serve: ${message}`;
}

function whole(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('invalid int value');
  return Number(text);
}

function scripted(path: string): Script {
  try {
    return readScriptFile(path);
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}

function transfer(text: string): KvTransferConfig | null {
  try {
    return readKvTransferConfig(text);
  } catch {
    throw new InvalidArgumentError('invalid loads value');
  }
}

/** Reads a length, which may be written `32k` (thousands) or `32K` (times 1,024). */
function length(text: string): number {
  const [, digits, unit] = /^(\d+)([kKmM]?)$/.exec(text) ?? [];
  if (!digits) throw new InvalidArgumentError('invalid human_readable_int value');
  const factors: Record<string, number> = { k: 1000, K: 1024, m: 1_000_000, M: 1024 ** 2 };
  return Number(digits) * (factors[unit ?? ''] ?? 1);
}

function amount(text: string): number {
  const number = Number(text);
  if (text.trim() === '' || !(number >= 0)) throw new InvalidArgumentError('invalid float value');
  return number;
}
