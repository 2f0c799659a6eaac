import { EXIT } from '../process/index.ts';
import type { AlertMute, AlertReceiverRow, AlertsView, TestPost } from '../protocol/index.ts';
import { mutedText, receiverRules } from '../show/alerts.ts';
import { askQueueJson, type QueueTarget } from './ask-queue.ts';
import { print } from './terminal.ts';

/** Runs `worker-vllm alerts status`. @throws UserError when the queue refuses */
export async function runAlertsStatus({
  json,
  ...target
}: QueueTarget & { json?: boolean }): Promise<number> {
  const view = await askQueueJson<AlertsView>(target, '/api/alerts', { scope: 'read' });
  print(json ? JSON.stringify(view, null, 2) : linesOf(view).join('\n'));
  return EXIT.ok;
}

/** Runs `worker-vllm alerts test RECEIVER`. @returns 1 where the receiver did not take it @throws UserError */
export async function runAlertsTest(receiver: string, target: QueueTarget): Promise<number> {
  const path = `/api/alerts/receivers/${encodeURIComponent(receiver)}/test`;
  const { taken, text } = await askQueueJson<TestPost>(target, path, { method: 'POST', scope: 'admin' });
  print(text);
  return taken ? EXIT.ok : EXIT.unexpected;
}

interface MuteOptions extends QueueTarget {
  for: string;
  pool?: string;
  kind?: string;
  why?: string;
}

/** Runs `worker-vllm alerts mute`. @throws UserError when the queue refuses */
export async function runAlertsMute(options: MuteOptions): Promise<number> {
  const { for: duration, pool, kind, why, ...target } = options;
  const body = { for: duration, pool, kind, why };
  const mute = await askQueueJson<AlertMute>(target, '/api/alerts/mutes', {
    method: 'POST',
    scope: 'admin',
    body,
  });
  print(lineOf(mute));
  return EXIT.ok;
}

/** Runs `worker-vllm alerts unmute ID`. @throws UserError when the queue refuses */
export async function runAlertsUnmute(id: string, target: QueueTarget): Promise<number> {
  const path = `/api/alerts/mutes/${encodeURIComponent(id)}`;
  const mute = await askQueueJson<AlertMute>(target, path, { method: 'DELETE', scope: 'admin' });
  print(`Ended: ${lineOf(mute)}`);
  return EXIT.ok;
}

function linesOf({ receivers, mutes }: AlertsView): string[] {
  const told =
    receivers.length === 0
      ? ['Nobody is told of problems: set QUEUE_ALERTS or QUEUE_ALERT_URL (docs/alerts.md).']
      : receivers.flatMap(receiverLines);
  return [...told, ...mutes.map(lineOf)];
}

function receiverLines(receiver: AlertReceiverRow): string[] {
  const { name, kind, to, text } = receiver;
  return [`${name} (${kind}, ${to}): ${text}`, `  ${receiverRules(receiver)}`];
}

function lineOf(mute: AlertMute): string {
  const { id, until, by, why } = mute;
  const who = by === null ? '' : ` by ${by}`;
  return `Muted ${id}: ${mutedText(mute)} until ${new Date(until).toISOString()}${who}${why === null ? '' : ` (${why})`}.`;
}
