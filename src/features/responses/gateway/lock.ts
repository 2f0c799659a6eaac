import type { Env } from '../../../gateway/env.ts';
import { callQueue, callResponses } from '../../../gateway/objects/calls.ts';
import { isSettled } from '../../../protocol/index.ts';
import { LOCKED } from '../refusals.ts';

/**
 * Makes a call that changes a conversation. Where that is locked, the queue is asked whether the request that has the
 * lock is still alive: the gateway of one whose caller waits may have been killed, and nobody else frees its lock.
 */
export async function whenFree<T>(
  env: Env,
  queueId: string,
  conversation: string,
  call: () => Promise<T>,
): Promise<T> {
  const said = await call();
  if (!isLocked(said)) return said;
  const job = await callResponses(env, queueId, (responses) => responses.lockJob(conversation));
  if (job === null) return said;
  const found = await callQueue(env, queueId, (queue) => queue.ownerOf(job));
  const isOver = found === null || isSettled(found.state);
  const isFree = await callResponses(env, queueId, (responses) =>
    responses.checkLock(conversation, job, isOver),
  );
  return isFree ? await call() : said;
}

function isLocked(said: unknown): boolean {
  return Object(said).code === LOCKED.code;
}
