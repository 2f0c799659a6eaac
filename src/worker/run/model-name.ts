import { endOfString } from '../../protocol/index.ts';

/**
 * Puts the served model's name where the body's own `model` is an alias, and leaves every other byte alone:
 * parsing and writing again would round numbers.
 * @param body text of a JSON object; anything else is returned as it is
 */
export function replaceModelAlias(body: string, aliases: ReadonlySet<string>, served: string): string {
  // Nearly every body names the model itself: a look at the text saves walking through it.
  if (![...body.matchAll(/"model"\s*:\s*"([^"\\]*)"/g)].some(([, name]) => aliases.has(name!))) return body;
  let replaced = '';
  let copied = 0;
  for (const { start, end } of topLevelModels(body)) {
    if (!aliases.has(body.slice(start + 1, end - 1))) continue;
    replaced += body.slice(copied, start) + JSON.stringify(served);
    copied = end;
  }
  return replaced + body.slice(copied);
}

/**
 * Where the string values of `model` keys of the outermost object stand, quotes included. Strings are skipped by
 * hand: a pattern for a whole one takes more stack than there is when it has many megabytes.
 */
function* topLevelModels(body: string): Generator<{ start: number; end: number }> {
  const marks = /["{}[\]:,]/g;
  let depth = 0;
  let isKeyOfModel = false;
  let isValue = false;
  for (let match = marks.exec(body); match !== null; match = marks.exec(body)) {
    const [mark] = match;
    const start = match.index;
    if (mark === '"') marks.lastIndex = endOfString(body, start);
    if (mark === '{' || mark === '[') depth++;
    else if (mark === '}' || mark === ']') depth--;
    if (depth !== 1) continue;
    if (mark === ',') isValue = false;
    else if (mark === ':') isValue = true;
    else if (mark === '"') {
      const end = marks.lastIndex;
      if (!isValue) isKeyOfModel = body.slice(start, end) === '"model"';
      else if (isKeyOfModel) yield { start, end };
    }
  }
}
