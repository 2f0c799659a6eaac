import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import type { Outgoing, Told, ToldNews } from './outgoing.ts';
import { linesOf } from './texts.ts';

/** The most characters of a subject. */
const LONGEST_SUBJECT = 150;

/** Makes one mail of all news, in plain text. */
export function emails<N extends ToldNews>(
  { server, from, to }: Extract<AlertReceiver, { kind: 'email' }>,
  news: readonly N[],
  told: Told,
): Outgoing<N>[] {
  // An error's text may have line breaks, which a subject must not have.
  const lines = linesOf(news, told, { bold: (word) => word, plain: (text) => text.replace(/\s+/g, ' ') });
  const more = news.length > 1 ? ` (and ${news.length - 1} more)` : '';
  const first = lines[0]!;
  const subject = first.length > LONGEST_SUBJECT ? `${first.slice(0, LONGEST_SUBJECT)}…` : first;
  return [
    {
      about: news,
      server,
      mail: { from, to, subject: `[worker-vllm] ${subject}${more}`, text: `${lines.join('\n\n')}\n` },
    },
  ];
}
