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
 * The answer, begun before the engine's is there where that takes long.
 * @param afterMs when it begins; left out: as the caller's limits want it
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
