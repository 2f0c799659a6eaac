import { QUEUE_SETTINGS } from '../settings/queue-settings.ts';

/**
 * Returns the ids of the queues that may exist, with the queues of this machine's workers and of callers that name
 * none, which need no permission.
 */
export function queueIds(env: NodeJS.ProcessEnv): string | undefined {
  const own = env.CASOLA_QUEUE_ID;
  return own && !env.QUEUE_IDS ? `${QUEUE_SETTINGS.queue_ids.default},${own}` : env.QUEUE_IDS;
}
