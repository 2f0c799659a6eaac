import { createHash } from 'node:crypto';
import { fieldsOf, type Job, parseTraceparent, type TraceParent } from '../../protocol/index.ts';

/** A job that waited longer has a trace of its own: samplers at the end of the road keep a trace for minutes only. */
const LONG_WAIT_MS = 600_000;

/**
 * Where the spans of one attempt stand. All ids but that of its request to the engine follow from those of queue, job
 * and attempt, so that every worker that tries a job names the spans that they share alike, and nobody has to make
 * them, or carry them, where nothing is exported.
 */
export interface JobPlace {
  /** As the caller gave it; null: it gave none, or one that is malformed. */
  caller: TraceParent | null;
  tracestate: string | undefined;
  /** The submission's trace. */
  traceId: string;
  serverId: string;
  sendId: string;
  /** This attempt's: the same trace, or one of its own that is linked to the submission. */
  attempt: { traceId: string; spanId: string; isApart: boolean };
  /** The attempt before; null: there was none. */
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

/** With the request's own headers, or as its payload names them for the engine. */
function contextOf({ trace, payload }: Job): { traceparent?: string; tracestate?: string } {
  if (trace?.traceparent !== undefined) return trace;
  const { headers } = fieldsOf(payload);
  const { traceparent, tracestate } = fieldsOf(headers);
  return {
    ...(typeof traceparent === 'string' && { traceparent }),
    ...(typeof tracestate === 'string' && { tracestate }),
  };
}

/** 64 hexadecimal digits. */
function digest(...parts: string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex');
}
