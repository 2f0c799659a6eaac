import type { PoolRow } from '../../protocol/index.ts';
import { isMissedNow, missing } from './objectives.ts';
import { span } from './words.ts';

type Standing = PoolRow['objectives'];
type Name = keyof Standing;

const NAMES: readonly Name[] = ['success', 'first_token'];

/** Says what a pool misses in its newest minutes, after its name; null: nothing. */
export function missedNow({ objectives }: PoolRow): string | null {
  for (const name of NAMES) {
    if (isMissedNow(objectives[name])) return missedWords(objectives, name, 'short');
  }
  return null;
}

/** Lists every objective that a pool misses, the one that matters most first. */
export function missedIn({ objectives }: PoolRow): { name: Name; isFast: boolean; text: string }[] {
  return NAMES.flatMap((name) => {
    const is = missing(objectives[name]);
    if (is === null) return [];
    return [
      { name, isFast: is === 'fast', text: missedWords(objectives, name, is === 'now' ? 'short' : 'long') },
    ];
  });
}

/** Writes "10 of 40 jobs failed, expired or found no slot within the hour (25 %; the objective allows 1 %)". */
function missedWords(objectives: Standing, name: Name, window: 'short' | 'long'): string {
  const { missed, of } = objectives[name][window];
  const what =
    name === 'success'
      ? `${missed} of ${of} jobs failed, expired or found no slot`
      : `${missed} of ${of} callers waited longer than ${span(objectives.first_token.within_ms)} for their first token`;
  const when = window === 'short' ? 'within five minutes' : 'within the hour';
  return `${what} ${when} (${percent(missed / of)}; the objective allows ${percent(1 - objectives[name].share)})`;
}

/** Writes a share with a decimal where it would be lost: `0.5 %`. */
function percent(share: number): string {
  const hundredths = share * 100;
  return `${hundredths < 10 ? Number(hundredths.toFixed(1)) : Math.round(hundredths)} %`;
}
