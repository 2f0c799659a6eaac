import { QUEUE_SETTINGS } from '../settings/queue-settings.ts';

/**
 * Returns the ids of queues that may exist: the queue of this machine's workers needs no permission by name, nor does
 * that of callers that name none.
 */
export function queueIds(env: NodeJS.ProcessEnv): string | undefined {
  const own = env.CASOLA_QUEUE_ID;
  return own && !env.QUEUE_IDS ? `${QUEUE_SETTINGS.queue_ids.default},${own}` : env.QUEUE_IDS;
}
