import { OutputEvents } from './output-events.ts';
import { CALL_KINDS, PART_LISTS, partsIn, partText, type ResponseEvent, type Said } from './said.ts';
import type { Fields } from './types.ts';

/**
 * Returns the events that are missing between what was said of a response and its end: the rest of each text in one
 * piece, further items, the ends of all, and the last event. A response that was cancelled has no last event, and of one
 * that failed nothing is said but that. `said` then has these events too.
 * @param final the Response object at its end
 * @param next the sequence number of the first of these events; null: they get none
 * @returns null if what was said is no beginning of the final response; `said` is unchanged then
 */
export function remainder(said: Said, final: Fields, next: number | null = null): ResponseEvent[] | null {
  if (said.isOver) return [];
  const status = String(final.status);
  if (status === 'cancelled') return [];
  const events = new OutputEvents(said, next);
  if (status !== 'failed') {
    if (!isBeginning(said, final)) return null;
    for (const [index, item] of outputOf(withSaidIds(said, final)).entries()) events.endItem(index, item);
  }
  events.say(`response.${status}`, { response: withSaidIds(said, final) });
  return events.take();
}

/**
 * Returns a response whose items have the ids under which they were said: some engines give them others at the end.
 */
export function withSaidIds(said: Said, response: Fields): Fields {
  const output = outputOf(response).map((item, index) => {
    const { id, call_id } = said.items[index]?.item ?? {};
    return {
      ...item,
      ...(id !== undefined && { id }),
      ...(call_id !== undefined && 'call_id' in item && { call_id }),
    };
  });
  return { ...response, output };
}

/** Tells whether what was said is a beginning of a response's output. */
function isBeginning(said: Said, final: Fields): boolean {
  const output = outputOf(final);
  return said.items.every(({ item, text, isTextDone, parts, isDone }, index) => {
    const whole = output[index];
    if (whole === undefined || whole.type !== item.type || whole.name !== item.name) return false;
    if (isDone) return sameTexts(item, whole);
    const call = CALL_KINDS[String(item.type)];
    if (call !== undefined && !begins(text, String(whole[call.field] ?? ''), isTextDone)) return false;
    return PART_LISTS.every((list) => {
      const all = partsIn(whole, list);
      return parts[list].every(
        (one, at) => all[at]?.type === one.part.type && begins(one.text, partText(all[at]!), one.isTextDone),
      );
    });
  });
}

function sameTexts(item: Fields, whole: Fields): boolean {
  const call = CALL_KINDS[String(item.type)];
  if (call !== undefined && item[call.field] !== whole[call.field]) return false;
  return PART_LISTS.every((list) => {
    const [said, all] = [partsIn(item, list), partsIn(whole, list)];
    return said.length === all.length && said.every((part, at) => partText(part) === partText(all[at]!));
  });
}

function begins(text: string, whole: string, isDone: boolean): boolean {
  return isDone ? text === whole : whole.startsWith(text);
}

function outputOf({ output }: Fields): Fields[] {
  return Array.isArray(output) ? (output as Fields[]) : [];
}
