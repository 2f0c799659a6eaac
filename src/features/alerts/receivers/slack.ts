import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import type { Outgoing, Told, ToldNews } from './outgoing.ts';
import { linesOf } from './texts.ts';

/**
 * Makes one post of all news, in the form of incoming webhooks of Slack, Mattermost and Discord:
 * https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks.
 */
export function slackPosts<N extends ToldNews>(
  { url }: Extract<AlertReceiver, { kind: 'slack' }>,
  news: readonly N[],
  told: Told,
): Outgoing<N>[] {
  const text = linesOf(news, told, { bold: (word) => `*${word}*`, plain }).join('\n');
  return [{ about: news, url, body: JSON.stringify({ text }) }];
}

/**
 * Returns an error's text as the receiver shows it literally: workers choose the words of their errors, and must
 * neither call a channel nor make links.
 */
function plain(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('@', '@\u200b')
    .replace(/\s+/g, ' ');
}
