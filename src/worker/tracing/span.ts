/** A span as it is exported: all of it is known when it is made. */
export interface Span {
  /** Whose it is: the worker tells the gateway's too. */
  service: 'gateway' | 'worker';
  name: string;
  kind: 'server' | 'producer' | 'consumer' | 'client';
  traceId: string;
  spanId: string;
  /** Of its trace. */
  flags: number;
  tracestate: string | undefined;
  /** Null: it begins a trace. */
  parent: { spanId: string; isRemote: boolean } | null;
  /** Epoch ms. */
  startMs: number;
  endMs: number;
  attributes: Attributes;
  links: SpanRef[];
  /** `error.type`; null: it went well. */
  error: string | null;
}

export type Attributes = Record<string, string | number | boolean>;

export interface SpanRef {
  traceId: string;
  spanId: string;
}
