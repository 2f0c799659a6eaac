import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import type { ReceiverRules } from '../object/alerts.ts';
import { alertmanagerPosts, RESEND_MS } from './alertmanager.ts';
import { emails } from './email.ts';
import type { Outgoing, Told, ToldNews } from './outgoing.ts';
import { pagerdutyPosts } from './pagerduty.ts';
import { slackPosts } from './slack.ts';
import { webhookPosts } from './webhook.ts';

/** Makes what is sent to a receiver of news, in its form. */
export async function outgoingOf<N extends ToldNews>(
  receiver: AlertReceiver,
  news: readonly N[],
  told: Told,
): Promise<Outgoing<N>[]> {
  switch (receiver.kind) {
    case 'slack':
      return slackPosts(receiver, news, told);
    case 'pagerduty':
      return await pagerdutyPosts(receiver, news, told);
    case 'alertmanager':
      return alertmanagerPosts(receiver, news, told);
    case 'webhook':
      return await webhookPosts(receiver, news, told);
    case 'email':
      return emails(receiver, news, told);
  }
}

/** Returns the rules by which a receiver is told. Alertmanager has to be sent again what stands, acknowledged or not. */
export function rulesOf(receiver: AlertReceiver): ReceiverRules {
  const { name, severity, pools, kinds, ends, repeat_after } = receiver;
  const isResent = receiver.kind === 'alertmanager';
  const repeat_ms = repeat_after === undefined ? null : repeat_after * 1000;
  return {
    name,
    severity,
    pools,
    kinds,
    ends,
    repeat_ms: isResent ? RESEND_MS : repeat_ms,
    repeats_acknowledged: isResent,
  };
}

/** Returns where a receiver is, without what would let anybody post there: a host, or the recipients of mails. */
export function placeOf(receiver: AlertReceiver): string {
  return receiver.kind === 'email' ? receiver.to.join(', ') : new URL(receiver.url).host;
}

/** Hides in an error's text what is secret of a receiver: its address beyond the host, its keys. */
export function withoutSecrets(receiver: AlertReceiver, text: string): string {
  const address = new URL(receiver.kind === 'email' ? receiver.server : receiver.url);
  const { pathname, search, username, password } = address;
  const secrets = [
    address.href,
    pathname + search,
    decodeURIComponent(username),
    decodeURIComponent(password),
    receiver.kind === 'pagerduty' ? receiver.routing_key : '',
    receiver.kind === 'webhook' ? (receiver.secret ?? '') : '',
    'authorization' in receiver ? (receiver.authorization ?? '') : '',
  ];
  return secrets
    .filter((secret) => secret.length > 1)
    .reduce((shown, secret) => shown.replaceAll(secret, '(secret)'), text);
}
