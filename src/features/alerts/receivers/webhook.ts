import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import { webhookKey } from '../../../settings/webhooks.ts';
import { signedHeaders } from '../../../webhooks/signature.ts';
import { idAtReceiver, type Outgoing, sha256, type Told, type ToldNews } from './outgoing.ts';

const TYPES = {
  came: 'alert.firing',
  worse: 'alert.firing',
  again: 'alert.repeated',
  over: 'alert.resolved',
} as const;

/**
 * Makes a post of each of the news, in our own JSON and with the headers of Standard Webhooks, signed if the receiver
 * has a secret: https://www.standardwebhooks.com. A post that is tried again has the same `webhook-id`.
 */
export async function webhookPosts<N extends ToldNews>(
  { url, authorization, secret }: Extract<AlertReceiver, { kind: 'webhook' }>,
  news: readonly N[],
  told: Told,
): Promise<Outgoing<N>[]> {
  const key = secret === undefined ? null : webhookKey(secret);
  return await Promise.all(
    news.map(async (one) => {
      const id = `alert_${(await sha256(sayingOf(one, told))).slice(0, 32)}`;
      const body = JSON.stringify(eventOf(one, told));
      const headers = {
        ...(key === null ? { 'webhook-id': id } : await signedHeaders(key, id, told.now, body)),
        ...(authorization !== undefined && { authorization }),
      };
      return { about: [one], url, body, headers };
    }),
  );
}

/** Returns what tells news apart from all other news of the same problem. */
function sayingOf({ what, problem, came_at, before }: ToldNews, told: Told): string {
  return [idAtReceiver(told, problem), came_at, what, before?.at ?? 0].join(' ');
}

function eventOf({ what, problem, came_at, over_at }: ToldNews, { queueId, now }: Told) {
  const { id, code, severity, config_id, worker_id, text, advice } = problem;
  return {
    type: TYPES[what],
    timestamp: new Date(now).toISOString(),
    data: {
      id,
      kind: code,
      severity,
      queue_id: queueId,
      config_id,
      worker_id,
      text,
      advice,
      started_at: new Date(came_at).toISOString(),
      ended_at: over_at === null ? null : new Date(over_at).toISOString(),
    },
  };
}
