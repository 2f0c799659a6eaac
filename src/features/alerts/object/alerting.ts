import { deliver } from '../../../durable/deliver.ts';
import type { Post } from '../../../durable/host.ts';
import type { AlertingPorts, MakeAlerting } from '../../../fleet/alerting.ts';
import {
  completeQueueSettings,
  DEFAULT_QUEUE,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../../../settings/queue-settings.ts';
import { Alerts } from './alerts.ts';
import { AlertPoster } from './poster.ts';

/** Returns the function with which a fleet object makes the part that posts its problems. */
export function alertingWith(bindings: QueueSettingBindings, post: Post): MakeAlerting {
  const settings = completeQueueSettings(settingsFromBindings(bindings));
  const { alert_url: url, alert_settled_seconds: settled } = settings;
  return ({ queueId, sql, alarm, now, view, commit, background, log }: AlertingPorts) => {
    const alerts = new Alerts(sql, settled * 1000);
    const poster = new AlertPoster({
      alerts,
      view,
      url,
      queueId: queueId === DEFAULT_QUEUE ? null : queueId,
      alarm,
      everyMs: (settled * 1000) / 3,
      now,
      commit,
      // The operator's own receiver may be at a private address.
      post: (body) => deliver(post('private'), url, body),
      background,
      log,
    });
    return {
      look: (problems, at) => alerts.look(problems, at),
      acknowledge: (id, by, at) => alerts.acknowledge(id, by, at),
      heard: () => poster.heard(),
      onAlarm: () => poster.postNews(),
    };
  };
}
