import type { EngineDescription, EngineName } from '../kinds/description.ts';
import { adapterFlags } from './adapter-flags.ts';
import type { Argument, DefaultArguments } from './flag-arguments.ts';

const NOTHING: DefaultArguments = { arguments: [], env: {} };

/** Read by OpenTelemetry's SDK in Python; vLLM takes `grpc` where it is not set. */
const PROTOCOL = 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL';

/** What vLLM is to do with blocks that it cannot read: compute them. By itself it fails the request. */
const CONNECTOR = {
  kv_connector: 'NixlConnector',
  kv_role: 'kv_both',
  kv_load_failure_policy: 'recompute',
};

/**
 * What an engine is started with for what its worker does, unless somebody asked for something else.
 * @param adapters that the operator lists
 * @param asked arguments that were asked for
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
    // How much of each prompt it had computed: the queue holds its guesses against that (docs/prefixes.md).
    engine.cachedTokensFlag ? flagOf('worker-vllm', [engine.cachedTokensFlag]) : NOTHING,
    // An engine that shares its GPU can put its weights aside. Its routes for that need no token: nobody but the worker
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

/** Of an engine for which another one prefills: it can read that one's cache. */
export function prefillFlags(engine: EngineName, env: NodeJS.ProcessEnv): DefaultArguments {
  if (!env.ENGINE_PREFILL_URL?.trim() || engine === 'fastdeploy') return NOTHING;
  return flagOf('ENGINE_PREFILL_URL', ['--kv-transfer-config', JSON.stringify(CONNECTOR)]);
}

/**
 * Where the worker exports spans (worker/tracing/settings.ts), its engine does too, unless something says where or how.
 * @param asked arguments that were asked for
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
