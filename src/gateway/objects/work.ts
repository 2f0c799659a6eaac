import { withTimeLeft } from '../../asking/attempt-loop.ts';
import type { PoolChoice } from '../../fleet/rpc.ts';
import { isUnserved, type RequestAnswer, type Unserved, type WaitingRequest } from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { callFleet, callQueue } from './calls.ts';

/**
 * Asks a queue for a worker and, where none that is connected serves the model, once more with the pool that the fleet
 * object knows for it. A call that is repeated because the queue restarted has what is left of its deadline.
 * @param now epoch ms
 * @throws HttpError 503, as `callQueue`
 */
export function callWorker(
  env: Env,
  queueId: string,
  wanted: WaitingRequest,
  now: () => number,
): Promise<RequestAnswer> {
  const startedAt = now();
  return callQueue(env, queueId, async (queue) => {
    const ask = (known?: PoolChoice) => {
      const left = withTimeLeft(wanted, now() - startedAt);
      return queue.request(known ? { ...left, known } : left);
    };
    const answer = await ask();
    if (!isUnserved(answer)) return answer;
    const [known] = await choosePools(env, queueId, [wanted.model]);
    return resolved(await ask(known));
  });
}

/** Returns the known pools of these models, in their order. */
export function choosePools(env: Env, queueId: string, models: (string | null)[]): Promise<PoolChoice[]> {
  return callFleet(env, queueId, (fleet) => fleet.choosePools(models));
}

/** Returns the answer of a queue that was told the pool. */
export function resolved<T extends object>(answer: T | Unserved | undefined): T {
  if (answer && !isUnserved(answer)) return answer;
  throw new Error('the queue asked for a pool that it was given');
}
