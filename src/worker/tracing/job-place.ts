import { createHash } from 'node:crypto';
import { fieldsOf, type Job, parseTraceparent, type TraceParent } from '../../protocol/index.ts';

/**
 * A job that waited longer gets a trace of its own, ms: samplers at the end of the road keep a trace for minutes only.
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
  /** The span of the attempt before; null: there was none. */
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

/** Returns 64 hexadecimal digits. */
function digest(...parts: string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex');
}
