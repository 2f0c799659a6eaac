import {
  isNotable,
  RECORD_ERROR_CHARACTERS,
  type RequestOutcome,
  type RequestRecord,
} from '../../protocol/index.ts';
import type { JobEvent } from '../events/event.ts';
import type { UndecidedJob } from '../state/recent-requests.ts';
import type { Core } from '../state/state.ts';
import { firstTokenAt, givenAt, submittedAt } from '../state/times.ts';
import { keyOf } from './account.ts';

/**
 * A request is slow if its first token, or its slot where no first token is reported, takes longer than this many ms.
 */
const SLOW_MS = 2000;

/** Records a request that has ended, if it is kept: the fleet object lists it. */
export function toRequests(core: Core, event: JobEvent): void {
  const { job, at } = event;
  const outcome = outcomeOf(event);
  if (outcome === null) return;
  // The outcome is known only when the gateway has not asked again in time.
  if (core.requests.isUndecided(job.id))
    return core.requests.noteUndecided(job.id, recordOf(core, event, outcome));
  keep(core, job.id, isNotable({ outcome, is_slow: isSlow(event) }), at, () =>
    recordOf(core, event, outcome),
  );
}

/** Records a request that failed and that the gateway did not ask for again. */
export function decidedRequest(core: Core, { id, record }: UndecidedJob, outcome: RequestOutcome): void {
  if (record === undefined) return;
  const ended = { ...record, outcome };
  keep(core, id, isNotable(ended), core.now(), () => ended);
}

function keep(core: Core, id: string, notable: boolean, at: number, record: () => RequestRecord): void {
  const standsFor = core.ended.keep(id, notable, at);
  if (standsFor > 0) core.ended.add({ ...record(), stands_for: standsFor });
}

/** Returns how a request ended with this event; null if it goes on. */
function outcomeOf({ job, step, ending }: JobEvent): RequestOutcome | null {
  switch (step) {
    case 'settled':
      if (ending?.error?.code === 'cancelled') return 'cancelled';
      return ending?.state === 'succeeded' && refusalOf(ending.result) === null ? 'succeeded' : 'failed';
    case 'cancelled':
    case 'expired':
      return step;
    case 'refused':
      return 'rejected';
    case 'released':
    case 'returned':
      // If a relay was to carry the answer, only the gateway can ask again.
      return job.mode === 'waiting' && job.reply === null ? 'rejected' : null;
    default:
      return null;
  }
}

/** Returns the status of an answer that is the engine's error, carried to its caller like any answer; else null. */
function refusalOf(result: Record<string, unknown> | null): number | null {
  const status = Number(result?.http_status ?? 0);
  return status >= 400 ? status : null;
}

function isSlow(event: JobEvent): boolean {
  const { job, at, timing } = event;
  // A stored job may wait for hours, as it is meant to.
  const from = job.mode === 'waiting' ? submittedAt(job) : (job.leased_at ?? at);
  return (firstTokenAt(job, at, timing) ?? job.leased_at ?? at) - from > SLOW_MS;
}

function recordOf(core: Core, event: JobEvent, outcome: RequestOutcome): RequestRecord {
  const { job, at, timing, usage } = event;
  const { model, config_id, mode } = keyOf(core, job, usage);
  const submitted = submittedAt(job);
  const firstToken = firstTokenAt(job, at, timing);
  return {
    id: job.id,
    request_id: job.mode === 'waiting' ? job.request_id : null,
    kind: mode === 'waiting' ? 'live' : mode,
    submitted_at: submitted,
    ended_at: at,
    config_id,
    model,
    route: job.mode === 'waiting' ? job.route : job.job_type,
    tenant: job.tenant,
    token_name: job.token_name,
    worker_id: job.leased_at === null ? null : job.worker_id,
    attempts: attemptsOf(event),
    outcome,
    ...errorOf(event),
    tokens_in: usage?.prompt_tokens ?? null,
    tokens_out: usage?.completion_tokens ?? null,
    cached_tokens: usage?.cached_tokens ?? null,
    wait_ms: Math.max(0, (givenAt(job) ?? at) - submitted),
    first_token_ms: firstToken === null ? null : Math.max(0, firstToken - submitted),
    total_ms: Math.max(0, at - submitted),
    is_slow: isSlow(event),
    stands_for: 1,
  };
}

/** Returns how many attempts were made in all, including the one that the request ended in. */
function attemptsOf({ job, ending }: JobEvent): number {
  const ran = job.leased_at === null || job.worker_id === null ? 0 : 1;
  if (job.mode === 'waiting') return (job.earlier?.attempts ?? 0) + ran;
  // An attempt that failed was charged; one that ran when its job ended otherwise was not.
  const charged = ending?.attempts ?? job.attempts;
  return ending?.state === 'failed' || ending?.worker_id === null ? charged : charged + 1;
}

function errorOf({ step, detail, ending, refusal }: JobEvent): Pick<RequestRecord, 'error_code' | 'error'> {
  const told = (code: string | null, message: string | null) => ({
    error_code: code,
    error: message?.slice(0, RECORD_ERROR_CHARACTERS) ?? null,
  });
  if (ending?.error) return told(ending.error.code, ending.error.message);
  const status = ending ? refusalOf(ending.result) : null;
  if (status !== null) return told(`http_${status}`, `the engine answered ${status}`);
  if (step === 'refused') return told(refusal ?? 'rejected', detail);
  if (step === 'released' || step === 'returned') return told(step, detail);
  return told(null, null);
}
