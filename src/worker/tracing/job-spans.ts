import { randomBytes } from 'node:crypto';
import type { EngineCall } from '../../engine/client/types.ts';
import { type Job, type TraceParent, writeTraceparent } from '../../protocol/index.ts';
import type { AttemptEnd, AttemptTrace, JobTracer } from '../ports.ts';
import {
  type Attributes,
  genAiRequest,
  genAiUsage,
  type JobPlace,
  pathOf,
  placeOf,
  type Span,
  type SpanRef,
} from './attributes.ts';

/** The worker whose spans these are. */
export interface SpanOrigin {
  workerId: string;
  engine: { name: string; host: string; port: number };
}

type AttemptFacts = Parameters<AttemptTrace['end']>[1];

/** The reasons of revocations after which no worker tries the job again. */
const FINAL_REASONS = new Set(['cancelled', 'caller_gone', 'deadline']);

interface Chat {
  call: Pick<EngineCall, 'method' | 'path' | 'body'>;
  spanId: string;
  startMs: number;
  endMs: number | null;
  status: number | null;
}

/**
 * The spans of one attempt, and the spans of the gateway and the queue that led to it:
 *
 *     caller's span
 *     └ POST /v1/chat/completions       server    of a caller that waits
 *       └ send CONFIG                   producer  until the job's first dispatch
 *         └ process CONFIG              consumer  this attempt
 *           └ chat MODEL                client    a request to the engine, which gets this context
 *
 * The attempt that ends the job exports the first two.
 */
class JobSpans implements AttemptTrace {
  readonly #job: Job;
  readonly #place: JobPlace;
  readonly #isSampled: boolean;
  readonly #origin: SpanOrigin;
  readonly #emit: (spans: Span[]) => void;
  readonly #arrivedMs: number;
  readonly #chats: Chat[] = [];

  constructor(
    job: Job,
    place: JobPlace,
    more: { isSampled: boolean; origin: SpanOrigin; arrivedMs: number; emit(spans: Span[]): void },
  ) {
    this.#job = job;
    this.#place = place;
    this.#isSampled = more.isSampled;
    this.#origin = more.origin;
    this.#arrivedMs = more.arrivedMs;
    this.#emit = more.emit;
  }

  /** Begins the span of a request to the engine. @returns headers for the request */
  request(call: EngineCall, nowMs: number): Record<string, string> {
    const { caller, attempt, chatId, tracestate } = this.#place;
    this.#endChat(nowMs);
    const spanId = this.#chats.length === 0 ? chatId : randomBytes(8).toString('hex');
    const { method, path, body } = call;
    this.#chats.push({ call: { method, path, body }, spanId, startMs: nowMs, endMs: null, status: null });
    // The engine decides as the caller's trace did, by the caller's own headers.
    if (!this.#isSampled && caller)
      return { traceparent: writeTraceparent(caller), ...(tracestate && { tracestate }) };
    return {
      traceparent: writeTraceparent({ traceId: attempt.traceId, spanId, flags: this.#flags }),
      ...(tracestate && { tracestate }),
    };
  }

  /** Notes that the engine's answer to the newest request has begun. */
  answered(status: number): void {
    const chat = this.#chats.at(-1);
    if (chat) chat.status = status;
  }

  end(end: AttemptEnd, facts: AttemptFacts, nowMs: number): void {
    if (!this.#isSampled) return;
    this.#endChat(nowMs);
    const error = errorOf(end);
    const chats = this.#chats.map((chat, index) =>
      this.#chatSpan(chat, index === this.#chats.length - 1, error, facts),
    );
    const spans = [this.#processSpan(error, nowMs), ...chats];
    this.#emit(this.#isFinal(end) ? [...this.#submissionSpans(error, nowMs), ...spans] : spans);
  }

  /** Tells whether no other attempt follows. */
  #isFinal(end: AttemptEnd): boolean {
    if (end.result === 'failed') return !end.retryable || (this.#job.trace?.attempts_left ?? 0) === 0;
    return end.result === 'succeeded' || FINAL_REASONS.has(end.reason);
  }

  get #flags(): number {
    const { caller } = this.#place;
    return ((caller?.flags ?? 0) & 0xfe) | (this.#isSampled ? 1 : 0);
  }

  get #pool(): string {
    return this.#job.config_id ?? 'default';
  }

  #endChat(nowMs: number): void {
    const chat = this.#chats.at(-1);
    if (chat) chat.endMs ??= nowMs;
  }

  #span(
    fields: Pick<Span, 'name' | 'kind' | 'spanId' | 'parent' | 'startMs' | 'endMs'> & Partial<Span>,
  ): Span {
    const { traceId, tracestate } = this.#place;
    return {
      service: 'worker',
      traceId,
      flags: this.#flags,
      tracestate,
      attributes: {},
      links: [],
      error: null,
      ...fields,
    };
  }

  #submissionSpans(error: string | null, nowMs: number): Span[] {
    const { caller, serverId, sendId, attempt } = this.#place;
    const { trace, mode } = this.#job;
    const startMs = this.#arrivedMs - (trace?.queued_ms ?? 0);
    const remote = caller && { spanId: caller.spanId, isRemote: true };
    // Only the worker of the first attempt knows when sending began.
    const sentMs = trace?.previous_fence === undefined ? this.#arrivedMs : startMs;
    const send = this.#span({
      service: 'gateway',
      name: `send ${this.#pool}`,
      kind: 'producer',
      spanId: sendId,
      parent: remote,
      startMs,
      endMs: sentMs,
      attributes: this.#messaging('send'),
      links: attempt.isApart ? [{ traceId: attempt.traceId, spanId: attempt.spanId }] : [],
    });
    if (mode === 'persisted') return [send];
    const server = this.#serverSpan(error, startMs, nowMs, remote);
    return [server, { ...send, parent: { spanId: serverId, isRemote: false } }];
  }

  #serverSpan(error: string | null, startMs: number, endMs: number, parent: Span['parent']): Span {
    const { method = 'POST', path } = Object(this.#job.payload) as { method?: unknown; path?: unknown };
    const route = typeof path === 'string' ? pathOf(path) : '/';
    const status = this.#chats.at(-1)?.status ?? null;
    return this.#span({
      service: 'gateway',
      name: `${method} ${route}`,
      kind: 'server',
      spanId: this.#place.serverId,
      parent,
      startMs,
      endMs,
      attributes: {
        'http.request.method': String(method),
        'http.route': route,
        'url.path': route,
        'worker_vllm.job.id': this.#job.job_id,
        ...(status !== null && { 'http.response.status_code': status }),
      },
      error,
    });
  }

  #processSpan(error: string | null, endMs: number): Span {
    const { attempt, sendId, traceId, previous } = this.#place;
    const { fence_token, trace } = this.#job;
    const submission: SpanRef = { traceId, spanId: sendId };
    return this.#span({
      name: `process ${this.#pool}`,
      kind: 'consumer',
      traceId: attempt.traceId,
      spanId: attempt.spanId,
      parent: attempt.isApart ? null : { spanId: sendId, isRemote: true },
      startMs: this.#arrivedMs,
      endMs,
      attributes: {
        ...this.#messaging('process'),
        'worker_vllm.attempt': this.#job.attempt ?? 1,
        'worker_vllm.fence_token': fence_token,
        'worker_vllm.worker.id': this.#origin.workerId,
        ...(trace?.queued_ms !== undefined && { 'worker_vllm.queue_ms': trace.queued_ms }),
      },
      links: [...(attempt.isApart ? [submission] : []), ...(previous ? [previous] : [])],
      error,
    });
  }

  #chatSpan(
    chat: Chat,
    isLast: boolean,
    error: string | null,
    { usage, firstTokenAtMs }: AttemptFacts,
  ): Span {
    const { operation, model, attributes } = genAiRequest(chat.call);
    const { name, host, port } = this.#origin.engine;
    const first = firstTokenAtMs === null ? null : (firstTokenAtMs - chat.startMs) / 1000;
    const ofAnswer: Attributes = isLast
      ? { ...genAiUsage(usage), ...(first !== null && { 'gen_ai.response.time_to_first_chunk': first }) }
      : {};
    return this.#span({
      name: model === null ? operation : `${operation} ${model}`,
      kind: 'client',
      traceId: this.#place.attempt.traceId,
      spanId: chat.spanId,
      parent: { spanId: this.#place.attempt.spanId, isRemote: false },
      startMs: chat.startMs,
      endMs: chat.endMs!,
      attributes: {
        'gen_ai.provider.name': name,
        'server.address': host,
        'server.port': port,
        ...attributes,
        ...(chat.status !== null && { 'http.response.status_code': chat.status }),
        ...ofAnswer,
      },
      error: isLast ? error : chat.status === null ? 'engine_unreachable' : String(chat.status),
    });
  }

  #messaging(operation: 'send' | 'process'): Attributes {
    return {
      'messaging.system': 'worker_vllm',
      'messaging.operation.name': operation,
      'messaging.operation.type': operation,
      'messaging.destination.name': this.#pool,
      'messaging.message.id': this.#job.job_id,
    };
  }
}

function errorOf(end: AttemptEnd): string | null {
  if (end.result === 'succeeded') return null;
  return end.result === 'failed' ? end.code : end.reason;
}

/** The receiver of spans, which also decides which spans are wanted. */
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

  /** Begins the spans of a job that has arrived. */
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
