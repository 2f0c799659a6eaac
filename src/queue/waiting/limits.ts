import { rateLimitHeaders } from '../../admission/headers.ts';
import type { OverLimit } from '../../admission/scope.ts';
import type { RequestAnswer } from '../rpc.ts';
import type { WaitingJob } from '../state/job.ts';
import { firstOf } from '../state/limit-book.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { reject } from './admission.ts';
import { mayWait, type Refused, refusal } from './over-limit.ts';

/** Admits requests by the limits of their tokens, and holds the others back. */

/**
 * Handles a new request: its token's limits admit it, or it waits until they do if it may wait that long.
 * @returns the answer to its caller if it is neither admitted nor held
 */
export function letInOrHold(core: Core, job: WaitingJob): Refused | null {
  // Requests that are held already go first.
  const over = core.limits.keptWith(job) ?? core.limits.letIn(job);
  if (over === null) {
    job.let_in_at = core.limits.letInAt(job);
    return null;
  }
  if (!mayWait(core, job, over)) return refusal(core, job, over);
  job.held = over;
  core.limits.hold(job);
  return null;
}

/** Re-admits a job that was admitted before, without counting it again. */
export function letInAgain(core: Core, job: WaitingJob, at: number | null): null {
  job.let_in_at = at ?? core.limits.letInAt(job);
  core.limits.letInAgain(job, job.let_in_at);
  return null;
}

/**
 * Admits held jobs that now have room. Of each token's stored jobs in a pool, one at a time may wait for a slot;
 * another follows once it has found one.
 * @returns whether there is anything new for a dispatch pass
 */
export function letInHeld(core: Core): boolean {
  if (!core.limits.hasHeld) {
    core.limits.opensAt = null;
    return false;
  }
  const { unknownUntil } = core.limits.earlier;
  if (unknownUntil !== null) {
    // Once this time is over, the next tick ends it, or postpones it if the queue stood still.
    openAt(core, unknownUntil > core.now() ? unknownUntil : null);
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
    const over = kept ?? core.stored.unholdNext(line.place);
    if (over === null) isOneIn = true;
    else opens.push(over.opens_at);
    if (over !== null && kept === null) core.limits.keep(line, over);
  }
  const next = opens.reduce(
    (one, other) => (one === null || (other !== null && other < one) ? other : one),
    null,
  );
  openAt(core, next);
  return isOneIn;
}

function openAt(core: Core, next: number | null): void {
  core.limits.opensAt = next;
  if (next !== null) due(core, next);
}

/**
 * Admits held requests of one token. A request that one limit holds does not delay a request that only another limit
 * would hold.
 * @param lines the requests by model, the oldest first
 * @returns the epoch ms at which each limit that still holds requests opens; null for one that time alone does not open
 */
function letInWaiting(core: Core, lines: readonly ReadonlySet<WaitingJob>[]): (number | null)[] {
  const kept: OverLimit[] = [];
  for (const jobs of lines) {
    let isKept = false;
    for (const job of jobs) {
      // A request held since the queue started is asked here for the first time whether it may wait.
      if (isKept && job.held?.limit !== 'unknown') break;
      const over = kept.find((before) => core.limits.isKeptBy(before, job)) ?? core.limits.letIn(job);
      if (over === null) core.waiting.letIn(job, core.limits.letInAt(job));
      else if (!mayWait(core, job, over)) reject(core, job, refusal(core, job, over));
      else {
        job.held = over;
        kept.push(over);
        isKept = true;
      }
    }
  }
  return kept.map(({ opens_at }) => opens_at);
}

/** Adds the headers that tell a caller how far it is from its limits. */
export function withHeaders(core: Core, job: WaitingJob, answer: RequestAnswer): RequestAnswer {
  if (job.extras.cost === undefined || answer.kind === 'error' || answer.kind === 'refused') return answer;
  return { ...answer, headers: rateLimitHeaders(core.limits.ratesOf(job), core.now()) };
}
