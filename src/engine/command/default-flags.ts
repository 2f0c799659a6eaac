import { EXIT, UserError } from '../../process/index.ts';
import type { Adapter } from '../../protocol/index.ts';
import type { EngineDescription, EngineSettings } from '../kinds/description.ts';
import type { Argument, DefaultArguments } from './flag-arguments.ts';

/**
 * Returns the number that a flag sets as `--name N` or `--name=N`, with hyphens or underscores; the last one counts.
 */
function numberAfter(names: readonly string[], args: readonly string[]): number | null {
  const numbers = valuesAfter(names, args).filter((value) => /^[1-9]\d{0,6}$/.test(value));
  return numbers.length === 0 ? null : Number(numbers.at(-1));
}

/** Returns the values of flags, in order. */
function valuesAfter(names: readonly string[], args: readonly string[]): string[] {
  return args.flatMap((word, index) => {
    const [name = '', value = args[index + 1]] = word.split('=', 2);
    return names.includes(name.replaceAll('_', '-')) && value !== undefined ? [value] : [];
  });
}

/** Returns the revision of the model that an engine loads; null: the newest. @param args the engine's arguments */
export function modelRevision(args: readonly string[]): string | null {
  return valuesAfter(['--revision'], args).at(-1) ?? null;
}

/**
 * Returns how many requests an engine runs concurrently, judged by its arguments; further requests wait in it.
 * @param args the arguments with which it was started
 */
export function requestsSideBySide({ sideBySide }: EngineDescription, args: readonly string[]): number {
  const { flag, short } = sideBySide;
  const each = flag === null ? null : numberAfter(short ? [flag, short] : [flag], args);
  // Each of several data-parallel ranks takes as many requests.
  const ranks = each === null ? null : numberAfter(['--data-parallel-size', '-dp'], args);
  return (each ?? sideBySide.usual) * (ranks ?? 1);
}

/**
 * The most adapters that are loaded at once unless MAX_LORAS says otherwise. Each place costs GPU memory from the
 * start, for the largest adapter that the engine accepts; vLLM's default is one.
 */
const AT_ONCE = 4;

const FROM = 'ENGINE_ADAPTERS';

/**
 * Returns the flags with which an engine can load adapters while it runs.
 * @param count number of adapters that the operator lists
 */
export function adapterFlags(count: number): DefaultArguments {
  if (count === 0) return { arguments: [], env: {} };
  const flags: [flag: string, ...values: string[]][] = [
    ['--enable-lora'],
    ['--max-loras', String(Math.min(count, AT_ONCE))],
  ];
  return {
    arguments: flags.map((words) => ({ words, flag: words[0], from: FROM })),
    // These routes read any folder of the machine, but only the worker reaches the engine's address.
    env: { VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' },
  };
}

/** The flags whose values are names that the engine answers to from its start. */
const NAMING = ['--served-model-name', '--lora-modules'];

/**
 * Refuses an adapter whose name the engine already has from its start, whatever set it: the engine would say that the
 * adapter is loaded, and answer with the other owner of the name.
 * @param args all arguments with which the engine is started
 * @throws UserError that names both
 */
export function refuseSharedNames(list: readonly Adapter[], args: readonly Argument[]): void {
  for (const { flag, words, from } of args) {
    if (flag === null || !NAMING.includes(flag)) continue;
    const values = words.flatMap((word) =>
      word.startsWith(`${flag}=`) ? word.slice(flag.length + 1) : word,
    );
    const taken = values.map(nameIn);
    const shared = list.find(({ name }) => taken.includes(name));
    if (!shared) continue;
    throw new UserError(
      `ENGINE_ADAPTERS: the adapter "${shared.name}" has a name that ${flag} (${from}) gives to something else, and callers would ask for both by it: give it another name`,
      EXIT.configuration,
    );
  }
}

/** Returns the name of a LoRA module, which is `name=path` or JSON; any other word is a name. */
function nameIn(word: string): string {
  return /^\s*\{.*"name"\s*:\s*"([^"]*)"/s.exec(word)?.[1] ?? word.split('=')[0]!;
}

/**
 * Returns how many adapters an engine can have loaded at once without reading any of them again.
 * @param args the arguments with which it was started; empty: they are not known
 */
export function adapterRoom(args: readonly string[]): number {
  const onGpu = numberAfter(['--max-loras'], args) ?? (args.includes('--enable-lora') ? 1 : AT_ONCE);
  return Math.max(onGpu, numberAfter(['--max-cpu-loras'], args) ?? 0);
}

const NOTHING: DefaultArguments = { arguments: [], env: {} };

/** A variable that OpenTelemetry's SDK for Python reads; vLLM uses `grpc` if it is not set. */
const PROTOCOL = 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL';

/**
 * The connector of the KV cache. vLLM is set to compute blocks that it cannot read; by default it fails the request.
 */
const CONNECTOR = {
  kv_connector: 'NixlConnector',
  kv_role: 'kv_both',
  kv_load_failure_policy: 'recompute',
};

/**
 * Returns the arguments that an engine needs for the worker's functions, unless somebody asked for others.
 * @param adapters number of adapters that the operator lists
 * @param asked the arguments that somebody asked for
 */
export function defaultFlags(
  engine: EngineDescription,
  settings: EngineSettings,
  adapters: number,
  asked: readonly Argument[],
  env: NodeJS.ProcessEnv,
): DefaultArguments {
  const isAsked = (flag: string) => asked.some((argument) => argument.flag === flag);
  const all = [
    tracingFlags(engine, asked, env),
    adapterFlags(adapters),
    // The engine reports how much of each prompt its cache held: the queue checks its guesses against that
    // (docs/prefixes.md).
    engine.cachedTokensFlag ? flagOf('worker-vllm', [engine.cachedTokensFlag]) : NOTHING,
    // An engine that shares its GPU can put its weights aside. The routes for that need no token: only the worker
    // reaches the engine's address.
    env.ENGINE_TURNS
      ? flagOf('worker-vllm swap', ['--enable-sleep-mode'], { VLLM_SERVER_DEV_MODE: '1' })
      : NOTHING,
    prefillFlags(engine, env),
    ...(engine.usualFlags?.(settings, env, isAsked) ?? []).map((words) => flagOf('worker-vllm', words)),
  ];
  return {
    arguments: all.flatMap((one) => one.arguments),
    env: Object.assign({}, ...all.map((one) => one.env)),
  };
}

function flagOf(
  from: string,
  words: [string, ...string[]],
  env: Record<string, string> = {},
): DefaultArguments {
  return { arguments: [{ words, flag: words[0], from }], env };
}

/** Returns the flags by which an engine can read the cache of another engine that prefills for it. */
export function prefillFlags(
  { readsPrefilled }: Pick<EngineDescription, 'readsPrefilled'>,
  env: NodeJS.ProcessEnv,
): DefaultArguments {
  if (!env.ENGINE_PREFILL_URL?.trim() || !readsPrefilled) return NOTHING;
  return flagOf('ENGINE_PREFILL_URL', ['--kv-transfer-config', JSON.stringify(CONNECTOR)]);
}

/**
 * Returns the flags by which the engine exports spans where the worker does (worker/tracing/settings.ts), unless a
 * variable or argument says where or how.
 * @param asked the arguments that somebody asked for
 */
export function tracingFlags(
  { tracingFlag: flag }: Pick<EngineDescription, 'tracingFlag'>,
  asked: readonly Argument[],
  env: NodeJS.ProcessEnv,
): DefaultArguments {
  const of = (name: string) => env[name]?.trim() || undefined;
  const whole = of('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
  const base = of('OTEL_EXPORTER_OTLP_ENDPOINT');
  const address = whole ?? base;
  const isOff = of('OTEL_SDK_DISABLED')?.toLowerCase() === 'true' || of('OTEL_TRACES_EXPORTER') === 'none';
  if (!flag || address === undefined || isOff || asked.some((argument) => argument.flag === flag))
    return NOTHING;
  const from = whole === undefined ? 'OTEL_EXPORTER_OTLP_ENDPOINT' : 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';
  const protocol = of(PROTOCOL);
  const isHttp = protocol === undefined || protocol === 'http/protobuf';
  const url = isHttp && whole === undefined ? `${address.replace(/\/+$/, '')}/v1/traces` : address;
  return flagOf(from, [flag, url], protocol === undefined ? { [PROTOCOL]: 'http/protobuf' } : {});
}
