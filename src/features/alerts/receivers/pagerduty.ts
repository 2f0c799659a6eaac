import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import { idAtReceiver, type Outgoing, sha256, type Told, type ToldNews } from './outgoing.ts';

/** The longest deduplication key and summary that PagerDuty accepts, characters. */
const LONGEST_KEY = 255;
const LONGEST_SUMMARY = 1024;

/**
 * Makes an event of each of the news, for PagerDuty's Events API v2: `trigger`, or `resolve` for an end. The
 * deduplication key is the problem's, so that PagerDuty makes one incident of all events of a problem.
 * https://developer.pagerduty.com/docs/send-alert-event
 */
export async function pagerdutyPosts<N extends ToldNews>(
  { url, routing_key }: Extract<AlertReceiver, { kind: 'pagerduty' }>,
  news: readonly N[],
  told: Told,
): Promise<Outgoing<N>[]> {
  return await Promise.all(
    news.map(async (one) => {
      const id = idAtReceiver(told, one.problem);
      const dedup_key = id.length <= LONGEST_KEY ? id : `worker-vllm/${await sha256(id)}`;
      const event =
        one.what === 'over'
          ? { routing_key, event_action: 'resolve', dedup_key }
          : {
              routing_key,
              event_action: 'trigger',
              dedup_key,
              client: 'worker-vllm',
              ...triggered(one, told),
            };
      return { about: [one], url, body: JSON.stringify(event) };
    }),
  );
}

function triggered({ problem, came_at }: ToldNews, { queueId, prefix }: Told) {
  const { code, severity, config_id, worker_id, text, advice } = problem;
  return {
    payload: {
      summary: `${prefix}${text}`.slice(0, LONGEST_SUMMARY),
      source: worker_id ?? config_id ?? queueId,
      severity,
      timestamp: new Date(came_at).toISOString(),
      class: code,
      ...(worker_id !== null && { component: worker_id }),
      ...(config_id !== null && { group: config_id }),
      custom_details: { advice, queue_id: queueId, config_id, worker_id },
    },
  };
}
