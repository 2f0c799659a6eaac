import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import type { Outgoing, Told, ToldNews } from './outgoing.ts';

/** Alertmanager expects alerts that stand again every 30 s to 3 min: https://prometheus.io/docs/alerting/latest/alerts_api. */
export const RESEND_MS = 60_000;
/** Alertmanager takes an alert for over that it has not been sent for this long, ms. */
const LASTS_MS = 4 * RESEND_MS;

/**
 * Makes one post of all news, for Alertmanager's API v2. Labels are what makes an alert the same one: they hold nothing
 * that changes while a problem lasts, but for its severity, with which it is another alert.
 */
export function alertmanagerPosts<N extends ToldNews>(
  { url, authorization }: Extract<AlertReceiver, { kind: 'alertmanager' }>,
  news: readonly N[],
  told: Told,
): Outgoing<N>[] {
  return [
    {
      about: news,
      url: `${url.replace(/\/+$/, '')}/api/v2/alerts`,
      body: JSON.stringify(news.map((one) => alertOf(one, told))),
      ...(authorization !== undefined && { headers: { authorization } }),
    },
  ];
}

function alertOf({ what, problem, came_at, over_at, before }: ToldNews, { queueId, now }: Told) {
  const { id, code, severity, config_id, worker_id, text, advice } = problem;
  const isOver = what === 'over';
  return {
    labels: {
      alertname: `worker_vllm_${code}`,
      severity: (isOver && before?.severity) || severity,
      queue_id: queueId,
      problem: id,
      ...(config_id !== null && { config_id }),
      ...(worker_id !== null && { worker_id }),
    },
    annotations: { summary: text, description: advice },
    startsAt: new Date(came_at).toISOString(),
    endsAt: new Date(isOver ? (over_at ?? now) : now + LASTS_MS).toISOString(),
  };
}
