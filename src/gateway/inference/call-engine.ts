import {
  HangUp,
  type Look,
  lookAt,
  type Opened,
  type Outcome,
  openedResponse,
  REAL_TIME,
  runAttempts,
} from '../../asking/attempt-loop.ts';
import type { AskedFor, RelayStub } from '../../asking/objects.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import type { Env } from '../env.ts';
import { callQueue } from '../objects/calls.ts';
import { callWorker } from '../objects/work.ts';
import type { GatewayContext } from '../routes/route.ts';
import type { InferenceRequest } from './read-request.ts';

/** The ports that open an attempt's answer, look at it, and run work that is not awaited. */
export interface CallPorts<Answer> {
  open(relay: RelayStub, streamId: number, asked: AskedFor): Promise<Opened<Answer>>;
  look(answer: Answer): Look;
  background(work: Promise<unknown>): void;
}

/** Asks workers until one answers. Frees the payload as soon as no further attempt is possible. */
export function callEngine<Answer>(
  env: Env,
  { queueId, call, release, headers }: InferenceRequest,
  hangUp: HangUp,
  { open, look, background }: CallPorts<Answer>,
): Promise<Outcome<Answer>> {
  const { payload } = call;
  let asking: Promise<unknown> = Promise.resolve();
  const attempted = runAttempts(call, hangUp, {
    queue: {
      request: (wanted) => {
        const asked = callWorker(env, queueId, wanted, Date.now);
        asking = asked.catch(() => {});
        return asked;
      },
      cancel: (id) => callQueue(env, queueId, (queue) => queue.cancel(id, 'caller_gone', null)),
    },
    openStream: (streamId, { call, worker_id, headers: limits }) => {
      const more = { ...headers, ...limits };
      // To leave the payload out by its name would copy the other fields one by one.
      const asked = { call: { ...call, payload: undefined }, queue_id: queueId, worker_id, more };
      return open(env.objects.relay(queueId, worker_id), streamId, asked);
    },
    look,
    waitUntil: background,
    ...REAL_TIME,
  });
  const over = () => {
    release();
    // The queue may read the payload until it has answered, even after the caller has left.
    void asking.then(() => freeBytes(payload));
  };
  void attempted.then(over, over);
  return attempted;
}

/** Asks workers as `callEngine` does, for a caller who gets a Response. The work ends when the caller hangs up. */
export function callForResponse(
  { env, req, executionCtx }: GatewayContext,
  request: InferenceRequest,
): { attempted: Promise<Outcome>; hangUp: HangUp } {
  const hangUp = new HangUp();
  // Cloudflare drops a request whose caller hung up: nothing that waits for anything runs after that. `readBody` gives
  // back what its body held.
  req.raw.signal.addEventListener('abort', () => hangUp.happen());
  const attempted = callEngine(env, request, hangUp, {
    open: async (relay, streamId, askedFor) =>
      openedResponse(await relay.open(streamId, askedFor.more, askedFor)),
    look: lookAt,
    background: (work) => executionCtx.waitUntil(work),
  });
  return { attempted, hangUp };
}
