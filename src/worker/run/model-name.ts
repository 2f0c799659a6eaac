/**
 * Puts the served model's name where the body's own `model` is an alias, and leaves every other byte alone:
 * parsing and writing again would round numbers.
 * @param body text of a JSON object; anything else is given back as it is
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

/** Where the string values of `model` keys of the outermost object stand, quotes included. */
function* topLevelModels(body: string): Generator<{ start: number; end: number }> {
  const tokens = /"(?:[^"\\]|\\.)*"|[{}[\]:,]/g;
  let depth = 0;
  let key = '';
  let isValue = false;
  for (const match of body.matchAll(tokens)) {
    const token = match[0];
    if (token === '{' || token === '[') depth++;
    else if (token === '}' || token === ']') depth--;
    if (depth !== 1) continue;
    if (token === ',') isValue = false;
    else if (token === ':') isValue = true;
    else if (token.startsWith('"')) {
      if (!isValue) key = token;
      else if (key === '"model"') yield { start: match.index, end: match.index + token.length };
    }
  }
}
