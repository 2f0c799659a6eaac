import type { Alerting, AlertingPorts, MakeAlerting } from '../../../fleet/alerting.ts';
import { span } from '../../../fleet/view/words.ts';
import type { AlertReceiverRow } from '../../../protocol/index.ts';
import { type AlertReceiver, alertReceivers } from '../../../settings/alert-receivers.ts';
import {
  completeQueueSettings,
  DEFAULT_QUEUE,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../../../settings/queue-settings.ts';
import { placeOf, rulesOf } from '../receivers/receivers.ts';
import { Alerts } from './alerts.ts';
import { Mutes } from './mutes.ts';
import { AlertPoster } from './poster.ts';
import { ReceiverStates } from './receiver-states.ts';
import { refusalOf, type Ways } from './send.ts';

/** Characters of a mute's id. */
const MUTE_ID = 8;

/** Returns the function with which a fleet object makes the part that tells receivers of its problems. */
export function alertingWith(bindings: QueueSettingBindings, ways: Ways): MakeAlerting {
  const settings = completeQueueSettings(settingsFromBindings(bindings));
  return (ports) =>
    alertingOf(receiversIn(settings, ports.log), settings.alert_settled_seconds * 1000, ways, ports);
}

/** Returns the receivers. The Node host has checked them; elsewhere wrong ones must not keep the fleet from starting. */
function receiversIn(
  settings: { alerts: string; alert_url: string },
  log: AlertingPorts['log'],
): AlertReceiver[] {
  try {
    return alertReceivers(settings);
  } catch (error) {
    log('error', `QUEUE_ALERTS is wrong, so nobody is told of problems: ${(error as Error).message}`);
    return [];
  }
}

function alertingOf(
  receivers: readonly AlertReceiver[],
  settledMs: number,
  ways: Ways,
  ports: AlertingPorts,
): Alerting {
  const { queueId, sql, now, randomName } = ports;
  const names = receivers.map(({ name }) => name);
  const mutes = new Mutes(sql);
  const states = new ReceiverStates(sql, names);
  const alerts = new Alerts(sql, mutes, names, settledMs);
  const told = () => ({ queueId, prefix: queueId === DEFAULT_QUEUE ? '' : `${queueId}: `, now: now() });
  const poster = new AlertPoster({
    ...ports,
    receivers,
    alerts,
    states,
    mutes,
    ways,
    told,
    everyMs: settledMs / 3,
  });
  for (const receiver of receivers) {
    const refusal = refusalOf(receiver, ways);
    if (refusal !== null) ports.log('error', `${receiver.name} is told of nothing. ${refusal}`);
  }
  return {
    look: (problems, at) => alerts.look(problems, at),
    acknowledge: (id, by, at) => alerts.acknowledge(id, by, at),
    heard: () => poster.heard(),
    onAlarm: () => poster.postNews(),
    view: (at) => ({
      receivers: receivers.map((receiver) => rowOf(receiver, { states, alerts, ways }, at)),
      mutes: mutes.list(at),
    }),
    mute: (request, by, at) => mutes.make(request, by, randomName(MUTE_ID), at),
    endMute: (id, at) => mutes.end(id, at),
    test: async (name) => {
      const receiver = receivers.find((one) => one.name === name);
      return receiver === undefined ? null : await poster.test(receiver);
    },
  };
}

interface Known {
  states: ReceiverStates;
  alerts: Alerts;
  ways: Ways;
}

function rowOf(receiver: AlertReceiver, { states, alerts, ways }: Known, now: number): AlertReceiverRow {
  const { name, kind, severity, pools = null, kinds = null, repeat_after = null, ends } = receiver;
  const { failures, retry_at, last_success_at, last_failure_at, last_failure } = states.of(name);
  const refusal = refusalOf(receiver, ways);
  const isFailing = failures > 0;
  const shown = { name, kind, to: placeOf(receiver), severity, pools, kinds, ends };
  const times = { last_success_at, last_failure_at, retry_at: isFailing ? retry_at : null };
  const row = { ...shown, ...times, repeat_after_seconds: repeat_after, standing: alerts.standing(name) };
  if (refusal !== null) return { ...row, state: 'refused', text: refusal };
  if (isFailing) {
    const when = retry_at > now ? `in ${span(retry_at - now)}` : 'now';
    const hasNews = alerts.news(rulesOf(receiver), now).length > 0;
    const again = hasNews ? `it is tried again ${when}` : 'there is nothing new to tell it';
    return { ...row, state: 'failing', text: `It did not take the last post: ${last_failure}; ${again}.` };
  }
  if (last_success_at === null) return { ...row, state: 'idle', text: 'Nothing was sent to it yet.' };
  return { ...row, state: 'ok', text: `It took the last post, ${span(now - last_success_at)} ago.` };
}
