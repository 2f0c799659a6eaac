import type { MiddlewareHandler } from 'hono';
import type { RefusedWorker } from '../fleet/rpc.ts';
import { HttpError } from './errors.ts';
import { callFleet } from './objects/calls.ts';
import { isNamedQueue, queueIdOf } from './objects/queue-ids.ts';
import type { Environment } from './routes/route.ts';

/** The gateway tells the fleet object at most once in this many ms: refused workers may not cause more load. */
const TELL_EVERY_MS = 1000;
let toldAt = 0;

const COMMAND = 'Make one with "npx worker-vllm token create --scope worker"';
const MAKE_ONE = `${COMMAND} on the queue's machine, or with --url from elsewhere, and give it to the worker as CASOLA_API_TOKEN: the queue takes it within a second.`;

const REFUSALS: Record<string, RefusedWorker> = {
  token_missing: { why: 'it sent no token', advice: MAKE_ONE },
  token_unknown: { why: 'its token is not known here', advice: MAKE_ONE },
  scope_missing: { why: 'its token has not the scope worker', advice: MAKE_ONE },
  worker_id_denied: {
    why: 'its token is bound to another worker id',
    advice: 'Set CASOLA_INSTANCE_ID to that id, or make a token for this worker.',
  },
  tokens_needed: {
    why: 'no tokens are configured, so only this machine is served',
    advice: `${COMMAND} on the queue's machine, start the queue again, and give the token to the worker as CASOLA_API_TOKEN.`,
  },
};

/** Notes workers that may not connect, so that the page can say why a fleet is empty. */
export const noteRefusedWorkers: MiddlewareHandler<Environment> = async (context, next) => {
  await next();
  const { error } = context;
  const refused = error instanceof HttpError && error.code !== null ? REFUSALS[error.code] : undefined;
  if (!refused || Date.now() - toldAt < TELL_EVERY_MS) return;
  const { env, req } = context;
  try {
    const queueId = queueIdOf(env, req.raw);
    // A stranger's request must not create an object.
    if (!isNamedQueue(env, queueId)) return;
    toldAt = Date.now();
    await callFleet(env, queueId, (fleet) => fleet.refused(refused));
  } catch {
    // The worker is refused even if this cannot be noted.
  }
};
