import type { EngineDescription } from '../kinds/description.ts';
import type { Argument, DefaultArguments } from './flag-arguments.ts';

/** Read by OpenTelemetry's SDK in Python; vLLM takes `grpc` where it is not set. */
const PROTOCOL = 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL';

const NOTHING: DefaultArguments = { arguments: [], env: {} };

/**
 * Where the worker exports spans (worker/tracing/settings.ts), its engine does too, unless something says where or how.
 * @param asked arguments that were asked for
 */
export function defaultTracing(
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
  return {
    arguments: [{ words: [flag, url], flag, from }],
    env: protocol === undefined ? { [PROTOCOL]: 'http/protobuf' } : {},
  };
}
