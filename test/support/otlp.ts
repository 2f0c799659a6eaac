import type { Receiver } from './receiver.ts';

/** A span as a collector gets it by OTLP in JSON, its attributes as an object. */
export interface ReceivedSpan {
  service: string;
  name: string;
  /** 2 server, 3 client, 4 producer, 5 consumer. */
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  traceState: string;
  start: number;
  end: number;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
  isError: boolean;
}

interface Posted {
  resourceSpans: {
    resource: { attributes: KeyValue[] };
    scopeSpans: { spans: PostedSpan[] }[];
  }[];
}
interface PostedSpan extends Pick<ReceivedSpan, 'name' | 'kind' | 'traceId' | 'spanId'> {
  parentSpanId?: string;
  traceState?: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: KeyValue[];
  links?: ReceivedSpan['links'];
  status: { code: number };
}
type KeyValue = { key: string; value: Record<string, unknown> };

/** All that came, in the order of their start. */
export function spansOf({ posts }: Receiver): ReceivedSpan[] {
  const spans = posts.flatMap(({ body }) =>
    (body as unknown as Posted).resourceSpans.flatMap(({ resource, scopeSpans }) => {
      const service = String(valuesOf(resource.attributes)['service.name']);
      return scopeSpans.flatMap(({ spans }) => spans.map((span) => readSpan(service, span)));
    }),
  );
  return spans.sort((a, b) => a.start - b.start || a.kind - b.kind);
}

function readSpan(service: string, span: PostedSpan): ReceivedSpan {
  const { name, kind, traceId, spanId, parentSpanId = '', traceState = '', links = [] } = span;
  return {
    service,
    name,
    kind,
    traceId,
    spanId,
    parentSpanId,
    traceState,
    start: Number(span.startTimeUnixNano) / 1e6,
    end: Number(span.endTimeUnixNano) / 1e6,
    attributes: valuesOf(span.attributes),
    links: links.map(({ traceId, spanId }) => ({ traceId, spanId })),
    isError: span.status.code === 2,
  };
}

function valuesOf(attributes: KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      'intValue' in value ? Number(value.intValue) : Object.values(value)[0],
    ]),
  );
}
