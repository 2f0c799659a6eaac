import { span } from '../../../fleet/view/words.ts';
import type { Told, ToldNews } from './outgoing.ts';

/** The most lines of one message. */
const MOST_LINES = 20;

const WORDS = { error: 'Error', warning: 'Warning', info: 'Test' } as const;

/** Returns what has happened, in a word or two: `Error`, `Still`, `Over after 12 min`. */
function headOf({ what, problem, came_at, over_at }: ToldNews, now: number): { word: string; rest: string } {
  if (what === 'over') return { word: 'Over', rest: ` after ${span((over_at ?? now) - came_at)}` };
  if (what === 'again') return { word: 'Still', rest: ` for ${span(now - came_at)}` };
  return { word: WORDS[problem.severity], rest: '' };
}

/** Returns a line for each of the news, the oldest first, and one that counts those beyond the most that are shown. */
export function linesOf(
  news: readonly ToldNews[],
  { prefix, now }: Told,
  { bold, plain }: { bold(word: string): string; plain(text: string): string },
): string[] {
  const lines = news.slice(0, MOST_LINES).map((one) => {
    const { word, rest } = headOf(one, now);
    const { text, advice } = one.problem;
    return `${plain(prefix)}${bold(word)}${rest}: ${plain(one.what === 'over' ? text : `${text} ${advice}`)}`;
  });
  return news.length > MOST_LINES ? [...lines, `… and ${news.length - MOST_LINES} more`] : lines;
}
