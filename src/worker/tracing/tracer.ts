import type { Job, TraceParent } from '../../protocol/index.ts';
import type { JobTracer } from '../ports.ts';
import { placeOf } from './job-place.ts';
import { JobSpans, type SpanOrigin } from './job-spans.ts';
import type { Span } from './span.ts';

/** The receiver of spans, which also decides which are wanted. */
export interface SpanSink {
  /** Tells whether a trace is wanted. @param parent null: the span begins a trace */
  isSampled(traceId: string, parent: TraceParent | null): boolean;
  emit(spans: Span[]): void;
}

/** Makes the spans of jobs. */
export class Tracer implements JobTracer {
  readonly #queueId: string;
  readonly #origin: SpanOrigin;
  readonly #sink: SpanSink;

  constructor(queueId: string, origin: SpanOrigin, sink: SpanSink) {
    this.#queueId = queueId;
    this.#origin = origin;
    this.#sink = sink;
  }

  /** Begins the spans of a job that has come. */
  begin(job: Job, arrivedMs: number): JobSpans {
    const place = placeOf(this.#queueId, job);
    return new JobSpans(job, place, {
      isSampled: this.#sink.isSampled(place.traceId, place.caller),
      origin: this.#origin,
      arrivedMs,
      emit: (spans) => this.#sink.emit(spans),
    });
  }
}
