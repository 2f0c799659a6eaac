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
      body: JSON.stringify(news.flatMap((one) => alertsOf(one, told))),
      ...(authorization !== undefined && { headers: { authorization } }),
    },
  ];
}

/** Returns the alert of a problem. With another severity it is another alert, and the one before has ended. */
function alertsOf(news: ToldNews, told: Told) {
  const { what, problem, over_at, before } = news;
  if (what === 'over') {
    const severity = before?.severity ?? problem.severity;
    return [alertOf(news, told, severity, over_at ?? told.now)];
  }
  const stands = alertOf(news, told, problem.severity, told.now + LASTS_MS);
  if (before === null || before.severity === problem.severity) return [stands];
  return [stands, alertOf(news, told, before.severity, told.now)];
}

function alertOf(news: ToldNews, { queueId }: Told, severity: string, endsAt: number) {
  const { problem, came_at } = news;
  const { id, code, config_id, worker_id, text, advice } = problem;
  return {
    labels: {
      alertname: `worker_vllm_${code}`,
      severity,
      queue_id: queueId,
      problem: id,
      ...(config_id !== null && { config_id }),
      ...(worker_id !== null && { worker_id }),
    },
    annotations: { summary: text, description: advice },
    startsAt: new Date(came_at).toISOString(),
    endsAt: new Date(endsAt).toISOString(),
  };
}
