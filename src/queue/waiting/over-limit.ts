import { isBudget } from '../limits/calendar-sum.ts';
import { rateLimitHeaders } from '../limits/headers.ts';
import type { OverLimit } from '../limits/scope.ts';
import type { RequestAnswer } from '../rpc.ts';
import type { WaitingJob } from '../state/job.ts';
import type { Core } from '../state/state.ts';

/** A request that the limits of its token do not let in: whether it may wait for them, and what it is answered if not. */

/** When something ends that runs nobody knows, s. */
const RETRY_WHEN_BUSY_SECONDS = 1;

export type Refused = Extract<RequestAnswer, { kind: 'refused' }>;

/**
 * Whether its caller said how long it waits, and that is long enough. While nobody knows what runs all wait: it is for
 * some seconds, and no doing of theirs.
 */
export function mayWait(core: Core, job: WaitingJob, over: OverLimit): boolean {
  if (over.limit === 'unknown') return true;
  return hasWaited(job) && (over.opens_at ?? core.now()) < job.slot_by;
}

/** Whether the caller said how long it waits, and so need not be told that it could. */
export function hasWaited({ waits_for_start }: WaitingJob): boolean {
  return !waits_for_start;
}

/** Why it is refused, and when asking again may help. */
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

/** A clause: `the token "a" has reached its limit of 60 requests a minute`. */
export function overText(tokenName: string, { limit, most, models, tenant }: OverLimit): string {
  if (limit === 'unknown')
    return `the queue has started again and does not know yet what runs for the token "${tokenName}"`;
  const who = tenant === null ? `the token "${tokenName}"` : `the tenant "${tenant}"`;
  const of = models === null ? '' : ` for "${models}"`;
  return `${who} has reached its limit of ${most} ${WHAT[limit]}${of}`;
}
