import { QUEUE_SETTINGS } from '../settings/queue-settings.ts';

/** The queue of this machine's workers exists without being allowed by name; so does the one of callers that name none. */
export function queueIds(env: NodeJS.ProcessEnv): string | undefined {
  const own = env.CASOLA_QUEUE_ID;
  return own && !env.QUEUE_IDS ? `${QUEUE_SETTINGS.queue_ids.default},${own}` : env.QUEUE_IDS;
}
