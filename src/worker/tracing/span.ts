/** A span as it is exported: all of it is known when it is made. */
export interface Span {
  /** The service that the span belongs to: the worker exports the gateway's spans too. */
  service: 'gateway' | 'worker';
  name: string;
  kind: 'server' | 'producer' | 'consumer' | 'client';
  traceId: string;
  spanId: string;
  /** The flags of the span's trace. */
  flags: number;
  tracestate: string | undefined;
  /** The parent span; null: this span begins a trace. */
  parent: { spanId: string; isRemote: boolean } | null;
  /** Epoch ms. */
  startMs: number;
  endMs: number;
  attributes: Attributes;
  links: SpanRef[];
  /** `error.type`; null: no error. */
  error: string | null;
}

export type Attributes = Record<string, string | number | boolean>;

export interface SpanRef {
  traceId: string;
  spanId: string;
}
