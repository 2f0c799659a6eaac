import {
  createTraceState,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  SamplingDecision,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import type { Log } from '../../process/log.ts';
import { Outage } from '../../process/outage.ts';
import { manifest } from '../../process/package.ts';
import { LAST_WORDS_MS } from '../../process/way-down.ts';
import type { Span } from './attributes.ts';
import type { SpanSink } from './job-spans.ts';
import type { TracingSettings } from './settings.ts';

/**
 * This module loads OpenTelemetry's SDK, which takes a quarter of a second and 9 MB: imported only if spans are
 * exported.
 */

const KINDS = {
  server: SpanKind.SERVER,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  client: SpanKind.CLIENT,
} as const;

export interface Exporter extends SpanSink {
  /** Posts the remaining spans, in no more time than the end of a process may take. */
  stop(withinMs: number): Promise<void>;
}

/** Posts spans in batches to OTEL_EXPORTER_OTLP_ENDPOINT, with the headers that its variables name. */
export function startExporter(settings: TracingSettings, workerId: string, log: Log): Exporter {
  const outage = new Outage(log, {
    begins: 'spans cannot be exported; they are lost meanwhile',
    ends: 'spans are exported again',
  });
  const processor = new BatchSpanProcessor({
    exporter: reporting(new OTLPTraceExporter(), outage),
    scheduledDelayMillis: settings.delayMs,
  });
  const sampler = samplerOf(settings);
  const resources = {
    worker: resourceOf(settings, settings.serviceName, { 'service.instance.id': workerId }),
    gateway: resourceOf(settings, `${settings.serviceName}-gateway`, {}),
  };
  return {
    isSampled: (traceId, parent) => {
      const context = parent
        ? trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags: parent.flags, isRemote: true })
        : ROOT_CONTEXT;
      const { decision } = sampler.shouldSample(context, traceId, '', SpanKind.SERVER, {}, []);
      return decision === SamplingDecision.RECORD_AND_SAMPLED;
    },
    emit: (spans) => {
      for (const span of spans) processor.onEnd(readable(span, resources[span.service]));
    },
    stop: async (withinMs) => {
      const timer = Promise.withResolvers<void>();
      setTimeout(timer.resolve, Math.min(withinMs, LAST_WORDS_MS)).unref();
      await Promise.race([processor.shutdown().catch(() => {}), timer.promise]);
    },
  };
}

/** Reports failures to the log, since the exporter itself is silent about them. */
function reporting(exporter: OTLPTraceExporter, outage: Outage): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        outage.report(result.code === 0 ? null : (result.error?.message ?? 'no answer'));
        // The failure was logged above: passed on, the processor would throw it where nothing catches it.
        done({ code: 0 });
      }),
    shutdown: () => exporter.shutdown(),
  };
}

function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  const [, isParentBased, name] = /^(parentbased_)?(.*)$/.exec(sampler)!;
  const root =
    name === 'always_off'
      ? new AlwaysOffSampler()
      : name === 'traceidratio'
        ? new TraceIdRatioBasedSampler(ratio)
        : new AlwaysOnSampler();
  return isParentBased ? new ParentBasedSampler({ root }) : root;
}

function resourceOf(
  { resource }: TracingSettings,
  serviceName: string,
  more: Record<string, string>,
): ReadableSpan['resource'] {
  const attributes = {
    'service.version': manifest.version,
    ...more,
    ...resource,
    'service.name': serviceName,
  };
  const own: ReadableSpan['resource'] = {
    attributes,
    merge: () => own,
    getRawAttributes: () => Object.entries(attributes),
  };
  return own;
}

function readable(span: Span, resource: ReadableSpan['resource']): ReadableSpan {
  const { traceId, spanId, flags, tracestate, parent } = span;
  const traceState = tracestate === undefined ? undefined : createTraceState(tracestate);
  const context: SpanContext = { traceId, spanId, traceFlags: flags, ...(traceState && { traceState }) };
  return {
    name: span.name,
    kind: KINDS[span.kind],
    spanContext: () => context,
    ...(parent && { parentSpanContext: { ...context, ...parent } }),
    startTime: timeOf(span.startMs),
    endTime: timeOf(Math.max(span.startMs, span.endMs)),
    duration: timeOf(Math.max(0, span.endMs - span.startMs)),
    ended: true,
    status: { code: span.error === null ? SpanStatusCode.UNSET : SpanStatusCode.ERROR },
    attributes: { ...span.attributes, ...(span.error !== null && { 'error.type': span.error }) },
    links: span.links.map((link) => ({ context: { ...link, traceFlags: flags } })),
    events: [],
    resource,
    // See attributes.ts for the conventions that these spans follow.
    instrumentationScope: { name: 'worker-vllm', version: manifest.version },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** Returns a time as seconds and nanoseconds. */
function timeOf(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
