import type { AskHook } from './held-events.ts';
import { spread } from './spread.ts';
import { type AnswerText, textsIn, withoutTokens } from './texts.ts';

/**
 * Has a hook see all texts of a whole answer, each channel in one piece.
 * @param value is changed in place
 * @returns whether anything changed
 * @throws FilterRefusal
 */
export async function seeWhole(value: unknown, ask: AskHook): Promise<boolean> {
  let isChanged = false;
  const channels = Map.groupBy(textsIn(value).texts, ({ channel }) => channel);
  for (const texts of channels.values()) if (await seeChannel(texts, ask)) isChanged = true;
  if (isChanged) withoutTokens(value);
  return isChanged;
}

async function seeChannel(texts: readonly AnswerText[], ask: AskHook): Promise<boolean> {
  const pieces = texts.filter(({ isWhole }) => !isWhole);
  // Text that never came in pieces is repeated by several events; all of them say the same.
  const said = pieces.length > 0 ? pieces : texts.slice(0, 1);
  const before = said.map(({ text }) => text);
  const text = before.join('');
  const changed = await ask({ part: said[0]!.part, text, offset: 0, isLast: true });
  if (changed === null || changed === text) return false;
  for (const [at, place] of spread(before, changed).entries()) if (place !== before[at]) said[at]!.set(place);
  for (const repeated of texts) if (repeated.isWhole) repeated.set(changed);
  return true;
}
