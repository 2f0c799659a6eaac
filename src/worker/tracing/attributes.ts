import { createHash } from 'node:crypto';
import type { EngineCall } from '../../engine/client/types.ts';
import {
  fieldsOf,
  type Job,
  jsonOrText,
  parseTraceparent,
  plainPath,
  routeLike,
  type TraceParent,
  type Usage,
} from '../../protocol/index.ts';

/** A span in the form in which it is exported: all of it is known when it is made. */
export interface Span {
  /** The service that the span belongs to: the worker exports the gateway's spans too. */
  service: 'gateway' | 'worker';
  name: string;
  kind: 'server' | 'producer' | 'consumer' | 'client';
  traceId: string;
  spanId: string;
  /** The flags of the span's trace, as in its traceparent. */
  flags: number;
  tracestate: string | undefined;
  /** The parent span; null: this span begins a trace. */
  parent: { spanId: string; isRemote: boolean } | null;
  /** When the span started, epoch ms. */
  startMs: number;
  endMs: number;
  attributes: Attributes;
  links: SpanRef[];
  /** The attribute `error.type`; null: no error. */
  error: string | null;
}

export type Attributes = Record<string, string | number | boolean>;

export interface SpanRef {
  traceId: string;
  spanId: string;
}

/**
 * The attributes that OpenTelemetry's conventions for generative AI require of a request to an engine
 * (open-telemetry/semantic-conventions-genai, all in development). They never hold the messages, which are personal.
 */

/** A body longer than this is not parsed for its parameters. */
const MOST_PARSED_BYTES = 256 * 1024;

export interface GenAiRequest {
  operation: string;
  model: string | null;
  attributes: Attributes;
}

export function genAiRequest({
  method,
  path,
  body,
}: Pick<EngineCall, 'method' | 'path' | 'body'>): GenAiRequest {
  const operation = operationOf(path);
  const fields = parsedFields(body);
  const model = typeof fields.model === 'string' ? fields.model : null;
  const numbers = ['max_tokens', 'temperature', 'top_p', 'top_k', 'seed'].flatMap((name) =>
    typeof fields[name] === 'number' ? [[`gen_ai.request.${name}`, fields[name]] as const] : [],
  );
  return {
    operation,
    model,
    attributes: {
      'gen_ai.operation.name': operation,
      ...(model !== null && { 'gen_ai.request.model': model }),
      ...(typeof fields.stream === 'boolean' && { 'gen_ai.request.stream': fields.stream }),
      ...Object.fromEntries(numbers),
      'http.request.method': method,
      'url.path': pathOf(path),
    },
  };
}

export function genAiUsage(usage: Usage | null): Attributes {
  if (usage === null) return {};
  const { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, model } = usage;
  return {
    'gen_ai.usage.input_tokens': prompt_tokens,
    'gen_ai.usage.output_tokens': completion_tokens,
    ...(cached_tokens !== undefined && { 'gen_ai.usage.cache_read.input_tokens': cached_tokens }),
    ...(reasoning_tokens !== undefined && { 'gen_ai.usage.reasoning.output_tokens': reasoning_tokens }),
    ...(model !== undefined && { 'gen_ai.response.model': model }),
  };
}

/** Returns a path without its query. */
export function pathOf(path: string): string {
  return path.split('?', 1)[0]!;
}

/** Returns the operation of a route; a route without one in the table of routes is its own operation: `rerank`. */
function operationOf(path: string): string {
  return routeLike(path)?.operation ?? plainPath(path).split('/').at(-1) ?? 'request';
}

function parsedFields(body: EngineCall['body']): Record<string, unknown> {
  if (body === undefined || body.length > MOST_PARSED_BYTES) return {};
  return fieldsOf(jsonOrText(typeof body === 'string' ? body : new TextDecoder().decode(body)));
}

/**
 * A job that waited longer than this, ms, gets a trace of its own, since tail samplers hold a trace for minutes only.
 */
const LONG_WAIT_MS = 600_000;

/**
 * The ids and the parents of one attempt's spans. All ids but those of repeated requests to the engine follow from
 * those of queue, job and attempt. So every worker that tries a job gives the spans that they share the same ids, and
 * nobody has to make ids, or carry them, where nothing is exported.
 */
export interface JobPlace {
  /** The caller's traceparent; null: the caller gave none, or a malformed one. */
  caller: TraceParent | null;
  tracestate: string | undefined;
  /** The id of the submission's trace. */
  traceId: string;
  serverId: string;
  sendId: string;
  /** The span of this attempt, in the submission's trace or in one of its own that is linked to the submission. */
  attempt: { traceId: string; spanId: string; isApart: boolean };
  /** The span of the previous attempt; null: there was none. */
  previous: { traceId: string; spanId: string } | null;
  chatId: string;
}

export function placeOf(queueId: string, job: Job): JobPlace {
  const { traceparent, tracestate } = contextOf(job);
  const caller = traceparent === undefined ? null : parseTraceparent(traceparent);
  const ofJob = digest(queueId, job.job_id);
  const traceId = caller?.traceId ?? ofJob.slice(0, 32);
  const isApart = job.trace?.is_link === true || (job.trace?.queued_ms ?? 0) > LONG_WAIT_MS;
  const attemptOf = (fence: number) => {
    const own = digest(queueId, job.job_id, String(fence));
    return { traceId: isApart ? own.slice(0, 32) : traceId, spanId: own.slice(32, 48), own };
  };
  const { own, ...attempt } = attemptOf(job.fence_token);
  const before = job.trace?.previous_fence;
  const previous = before === undefined ? null : attemptOf(before);
  return {
    caller,
    tracestate: caller === null ? undefined : tracestate,
    traceId,
    serverId: ofJob.slice(32, 48),
    sendId: ofJob.slice(48, 64),
    attempt: { ...attempt, isApart },
    previous: previous && { traceId: previous.traceId, spanId: previous.spanId },
    chatId: own.slice(48, 64),
  };
}

/** Returns the trace context from the request's own headers, or from those that its payload names for the engine. */
function contextOf({ trace, payload }: Job): { traceparent?: string; tracestate?: string } {
  if (trace?.traceparent !== undefined) return trace;
  const { headers } = fieldsOf(payload);
  const { traceparent, tracestate } = fieldsOf(headers);
  return {
    ...(typeof traceparent === 'string' && { traceparent }),
    ...(typeof tracestate === 'string' && { tracestate }),
  };
}

/** Returns a digest of 64 hexadecimal digits. */
function digest(...parts: string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex');
}
