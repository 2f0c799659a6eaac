import type { EngineDescription, EngineName } from '../kinds/description.ts';
import { adapterFlags } from './adapter-flags.ts';
import type { Argument, DefaultArguments } from './flag-arguments.ts';

const NOTHING: DefaultArguments = { arguments: [], env: {} };

/** A variable that OpenTelemetry's SDK in Python reads; vLLM takes `grpc` where it is not set. */
const PROTOCOL = 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL';

/** The connector of the KV cache. vLLM should compute blocks that it cannot read; by default it fails the request. */
const CONNECTOR = {
  kv_connector: 'NixlConnector',
  kv_role: 'kv_both',
  kv_load_failure_policy: 'recompute',
};

/**
 * Returns the arguments that an engine needs for what its worker does, unless somebody asked for something else.
 * @param adapters number of adapters that the operator lists
 * @param asked arguments that somebody asked for
 */
export function defaultFlags(
  engine: EngineDescription,
  adapters: number,
  asked: readonly Argument[],
  env: NodeJS.ProcessEnv,
): DefaultArguments {
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
    prefillFlags(engine.name, env),
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

/** Returns the flags by which an engine can read the cache of another one that prefills for it. */
export function prefillFlags(engine: EngineName, env: NodeJS.ProcessEnv): DefaultArguments {
  if (!env.ENGINE_PREFILL_URL?.trim() || engine === 'fastdeploy') return NOTHING;
  return flagOf('ENGINE_PREFILL_URL', ['--kv-transfer-config', JSON.stringify(CONNECTOR)]);
}

/**
 * Returns the flags by which the engine exports spans where the worker does (worker/tracing/settings.ts), unless
 * something says where or how.
 * @param asked arguments that somebody asked for
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
