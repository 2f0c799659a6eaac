import type { Outcome } from '../../asking/attempt-loop.ts';
import type { HangUp } from '../../asking/hang-up.ts';
import type { Env } from '../env.ts';
import { callQueue } from '../objects/calls.ts';
import type { Asked } from './asked.ts';
import { beginAfterMs, respondEarly } from './early-response.ts';
import { rememberingOwner } from './kept-responses.ts';
import { respond } from './respond.ts';
import { waitingPlace } from './waiting-place.ts';

/**
 * Returns the answer to a request; it begins before the engine's answer is there where that takes long.
 * @param afterMs when the answer begins; left out, the caller's limits decide
 */
export function answer(
  env: Env,
  { queueId, call: { job_id: jobId, tenant }, facts, errorOf, headers, kind, isKept, given }: Asked,
  attempted: Promise<Outcome>,
  hangUp: HangUp,
  afterMs = beginAfterMs(Object.values(given)),
): Promise<Response> {
  const answered = attempted.then((outcome) => {
    const response = respond(outcome, { jobId, facts, errorOf }, Date.now());
    return isKept ? rememberingOwner(env, queueId, jobId, tenant, response) : response;
  });
  if (kind === null) return answered;
  return respondEarly(answered, {
    kind,
    headers,
    errorOf,
    timers: globalThis,
    hangUp: () => hangUp.happen(),
    afterMs,
    progress: () => {
      const ask = () => callQueue(env, queueId, (queue) => queue.waitingLines());
      return waitingPlace(queueId, jobId, ask, Date.now);
    },
  });
}
