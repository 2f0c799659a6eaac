import { rateLimitHeaders } from '../../admission/headers.ts';
import type { OverLimit } from '../../admission/scope.ts';
import { isBudget } from '../../admission/windows.ts';
import type { RequestAnswer } from '../rpc.ts';
import type { WaitingJob } from '../state/job.ts';
import type { Core } from '../state/state.ts';

/** Decides whether a request that its token's limits forbid may wait for them, and words the answer if it may not. */

/** The `Retry-After` where a running request has to end first, s: nobody knows when it will. */
const RETRY_WHEN_BUSY_SECONDS = 1;

export type Refused = Extract<RequestAnswer, { kind: 'refused' }>;

/**
 * Says whether the caller stated how long it waits, and the limit opens within that time. While the queue does not know
 * what runs, all requests wait: it takes only some seconds and is not the callers' fault.
 */
export function mayWait(core: Core, job: WaitingJob, over: OverLimit): boolean {
  if (over.limit === 'unknown') return true;
  return hasWaited(job) && (over.opens_at ?? core.now()) < job.slot_by;
}

/** Says whether the caller stated how long it waits, so that it need not be told that it could. */
export function hasWaited({ waits_for_start }: WaitingJob): boolean {
  return !waits_for_start;
}

/** Words why the request is refused, and when a retry may help. */
export function refusal(core: Core, job: WaitingJob, over: OverLimit): Refused {
  const now = core.now();
  const seconds = over.opens_at === null ? RETRY_WHEN_BUSY_SECONDS : (over.opens_at - now) / 1000;
  const how =
    isBudget(over.limit) && over.opens_at !== null
      ? `it resets at ${new Date(over.opens_at).toISOString()}`
      : `try again in ${Math.ceil(seconds)} s${hasWaited(job) ? '' : ', or wait for it with the header X-Queue-Wait: 60'}`;
  return {
    kind: 'refused',
    reason: 'over_limit',
    message: `${overText(job.token_name ?? '', over)}: ${how}`,
    retry_after_seconds: seconds,
    headers: rateLimitHeaders(core.limits.ratesOf(job), now),
  };
}

const WHAT: Record<Exclude<OverLimit['limit'], 'unknown'>, string> = {
  requests_per_minute: 'requests a minute',
  tokens_per_minute: 'tokens a minute',
  tokens_per_day: 'tokens a day',
  tokens_per_month: 'tokens a month',
  dollars_per_day: 'US dollars a day',
  dollars_per_month: 'US dollars a month',
  running: 'requests at a time',
};

/** Words the limit as a clause: `the token "a" has reached its limit of 60 requests a minute`. */
export function overText(tokenName: string, { limit, most, models, tenant }: OverLimit): string {
  if (limit === 'unknown')
    return `the queue has started again and does not know yet what runs for the token "${tokenName}"`;
  const who = tenant === null ? `the token "${tokenName}"` : `the tenant "${tenant}"`;
  const of = models === null ? '' : ` for "${models}"`;
  return `${who} has reached its limit of ${most} ${WHAT[limit]}${of}`;
}
