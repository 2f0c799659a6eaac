import { percentDecoded } from '../../protocol/index.ts';

/** OpenTelemetry's own variables (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/). */

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
type SamplerName = (typeof SAMPLERS)[number];

export interface TracingSettings {
  serviceName: string;
  sampler: SamplerName;
  /** The share of the traces that begin here which is exported, for the samplers by ratio. */
  ratio: number;
  /** The time between two posts, ms. */
  delayMs: number;
  resource: Record<string, string>;
  /** Warnings that the log shows once. */
  warnings: string[];
}

/** Reads the settings of spans from the environment; null: none are exported. */
export function tracingSettings(env: NodeJS.ProcessEnv): TracingSettings | null {
  const of = (name: string) => env[name]?.trim() || undefined;
  if (!of('OTEL_EXPORTER_OTLP_ENDPOINT') && !of('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT')) return null;
  if (of('OTEL_SDK_DISABLED')?.toLowerCase() === 'true' || of('OTEL_TRACES_EXPORTER') === 'none') return null;
  const warnings: string[] = [];
  const protocol = of('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL') ?? of('OTEL_EXPORTER_OTLP_PROTOCOL');
  if (protocol === 'grpc') {
    warnings.push('spans go by OTLP over HTTP, not gRPC: name the HTTP port of the collector (usually 4318)');
  }
  const named = of('OTEL_TRACES_SAMPLER');
  const sampler = SAMPLERS.find((name) => name === named);
  if (named !== undefined && sampler === undefined) {
    warnings.push(`OTEL_TRACES_SAMPLER=${named} is none of ${SAMPLERS.join(', ')}: every trace is sampled`);
  }
  const ratio = Number(of('OTEL_TRACES_SAMPLER_ARG') ?? 1);
  const isRatio = ratio >= 0 && ratio <= 1;
  if (!isRatio) warnings.push('OTEL_TRACES_SAMPLER_ARG is no number from 0 to 1: 1 is used');
  const delayMs = Number(of('OTEL_BSP_SCHEDULE_DELAY') ?? 5000);
  return {
    serviceName: of('OTEL_SERVICE_NAME') ?? 'worker-vllm',
    sampler: sampler ?? 'parentbased_always_on',
    ratio: isRatio ? ratio : 1,
    delayMs: delayMs >= 0 ? delayMs : 5000,
    resource: pairsIn(of('OTEL_RESOURCE_ATTRIBUTES') ?? ''),
    warnings,
  };
}

/** Parses `key=value,key=value`, with percent-encoded values. */
function pairsIn(text: string): Record<string, string> {
  const pairs = text.split(',').flatMap((pair) => {
    const [name, value] = pair.split('=', 2).map((part) => part.trim());
    return name && value ? [[name, percentDecoded(value)] as const] : [];
  });
  return Object.fromEntries(pairs);
}
