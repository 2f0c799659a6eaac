import { rateLimitHeaders } from '../limits/headers.ts';
import type { OverLimit } from '../limits/scope.ts';
import type { RequestAnswer } from '../rpc.ts';
import type { WaitingJob } from '../state/job.ts';
import { firstOf } from '../state/limit-book.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';

/** Who is let in by the limits of its token, and who waits for that. */

/** When something ends that runs nobody knows, s. */
const RETRY_WHEN_BUSY_SECONDS = 1;

type Refused = Extract<RequestAnswer, { kind: 'refused' }>;

/**
 * A request has come: its token's limits let it in, or it waits until they do, where its caller said how long it waits
 * and that is long enough.
 * @returns the answer to its caller where it does neither
 */
export function letInOrHold(core: Core, job: WaitingJob): Refused | null {
  // What waits already goes first.
  const over = core.limits.keptWith(job) ?? core.limits.letIn(job);
  if (over === null) {
    job.let_in_at = core.now();
    return null;
  }
  const saidHowLong = !job.waits_for_start;
  if (!saidHowLong || (over.opens_at ?? core.now()) >= job.slot_by) return refusal(core, job, over);
  job.held = over;
  core.limits.hold(job);
  return null;
}

/** It was let in before. */
export function letInAgain(core: Core, job: WaitingJob, at: number | null): null {
  core.limits.letInAgain(job);
  job.let_in_at = at ?? core.now();
  return null;
}

/**
 * Lets in what was held back and has room now: of stored jobs one of each token in a pool, so another may follow once
 * that has found a slot.
 * @returns whether anything was let in, and a dispatch pass is to follow
 */
export function letInHeld(core: Core): boolean {
  if (!core.limits.hasHeld) {
    core.limits.opensAt = null;
    return false;
  }
  const opens: (number | null)[] = [];
  let isOneIn = false;
  for (const lines of core.limits.waiting()) {
    const first = lines.map(firstOf);
    opens.push(...letInWaiting(core, lines));
    isOneIn ||= first.some(({ held }) => held === null);
  }
  for (const line of core.limits.openLines()) {
    const kept = core.limits.stillKept(line);
    const over = kept ?? core.stored.letInNext(line.place);
    if (over === null) isOneIn = true;
    else opens.push(over.opens_at);
    if (over !== null && kept === null) core.limits.keep(line, over);
  }
  const next = opens.reduce(
    (one, other) => (one === null || (other !== null && other < one) ? other : one),
    null,
  );
  core.limits.opensAt = next;
  if (next !== null) due(core, next);
  return isOneIn;
}

/**
 * Of one token. What a limit keeps waits for nobody that another limit keeps.
 * @param lines by model, in order of age
 * @returns when those open that have some left; null: not by time
 */
function letInWaiting(core: Core, lines: readonly ReadonlySet<WaitingJob>[]): (number | null)[] {
  const kept: OverLimit[] = [];
  for (const jobs of lines) {
    for (const job of jobs) {
      const over = kept.find((before) => core.limits.isKeptBy(before, job)) ?? core.limits.letIn(job);
      if (over !== null) {
        job.held = over;
        kept.push(over);
        break;
      }
      core.waiting.letIn(job, core.now());
    }
  }
  return kept.map(({ opens_at }) => opens_at);
}

/** Why it is refused, and when asking again may help. */
export function refusal(core: Core, job: WaitingJob, over: OverLimit): Refused {
  const now = core.now();
  const seconds = over.opens_at === null ? RETRY_WHEN_BUSY_SECONDS : (over.opens_at - now) / 1000;
  const isBudget = over.limit === 'tokens_per_day' || over.limit === 'tokens_per_month';
  const how =
    isBudget && over.opens_at !== null
      ? `it resets at ${new Date(over.opens_at).toISOString()}`
      : `try again in ${Math.ceil(seconds)} s, or wait for it with the header X-Queue-Wait: 60`;
  return {
    kind: 'refused',
    reason: 'over_limit',
    message: `${overText(job.token_name ?? '', over)}: ${how}`,
    retry_after_seconds: seconds,
    headers: rateLimitHeaders(core.limits.standingsOf(job), now),
  };
}

const WHAT: Record<OverLimit['limit'], string> = {
  requests_per_minute: 'requests a minute',
  tokens_per_minute: 'tokens a minute',
  tokens_per_day: 'tokens a day',
  tokens_per_month: 'tokens a month',
  running: 'requests at a time',
};

/** A clause: `the token "a" has reached its limit of 60 requests a minute`. */
function overText(tokenName: string, { limit, most, models, tenant }: OverLimit): string {
  const who = tenant === null ? `the token "${tokenName}"` : `the tenant "${tenant}"`;
  const of = models === null ? '' : ` for "${models}"`;
  return `${who} has reached its limit of ${most} ${WHAT[limit]}${of}`;
}

/** Adds the headers that tell a caller how far it is from its limits. */
export function withHeaders(core: Core, job: WaitingJob, answer: RequestAnswer): RequestAnswer {
  if (job.cost === null || answer.kind === 'error' || answer.kind === 'refused') return answer;
  return { ...answer, headers: rateLimitHeaders(core.limits.standingsOf(job), core.now()) };
}
