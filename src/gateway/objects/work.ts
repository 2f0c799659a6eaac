import type { PoolChoice } from '../../fleet/rpc.ts';
import { askForWorker, type Opened } from '../../queue/request-call.ts';
import { isUnserved, type RequestAnswer, type Unserved, type WaitingRequest } from '../../queue/rpc.ts';
import { type Env, objectNamed } from '../env.ts';
import { callQueue } from './calls.ts';

/**
 * Asks a queue for a worker, and where none that is connected serves the model, once more with the pool that the
 * fleet object knows for it. Asked again since it restarted, a call has what is left of its deadline.
 * @param more headers of the caller's response beside the engine's
 * @param now epoch ms
 * @throws HttpError 503, as `callQueue`
 */
export function callWorker(
  env: Env,
  queueId: string,
  wanted: WaitingRequest,
  more: Record<string, string>,
  now: () => number,
): Promise<RequestAnswer | Opened> {
  const startedAt = now();
  const { deadline_ms, limit_ms } = wanted;
  const left = (ms: number) => Math.max(0, ms - (now() - startedAt));
  return callQueue(env, queueId, async (queue) => {
    const ask = (known?: PoolChoice) =>
      askForWorker(
        queue,
        {
          ...wanted,
          ...(known && { known }),
          ...(deadline_ms !== undefined && { deadline_ms: left(deadline_ms) }),
          ...(limit_ms !== undefined && { limit_ms: left(limit_ms) }),
        },
        more,
      );
    const answer = await ask();
    if (!isUnserved(answer)) return answer;
    const [known] = await choosePools(env, queueId, [wanted.model]);
    return resolved(await ask(known));
  });
}

/** The known pools of these models, in their order. */
export function choosePools(env: Env, queueId: string, models: (string | null)[]): Promise<PoolChoice[]> {
  return objectNamed(env.FLEET, queueId).choosePools(models);
}

/** The answer of a queue that was told the pool. */
export function resolved<T extends object>(answer: T | Unserved | undefined): T {
  if (answer && !isUnserved(answer)) return answer;
  throw new Error('the queue asked for a pool that it was given');
}
