import { membersOf } from './json-members.ts';

/**
 * Puts the served model's name where the body's own `model` is an alias, and leaves every other byte alone:
 * parsing and writing again would round numbers.
 * @param body text of a JSON object; anything else is returned as it is
 */
export function replaceModelAlias(body: string, aliases: ReadonlySet<string>, served: string): string {
  if (!mayNameAlias(body, (name) => aliases.has(name))) return body;
  let replaced = '';
  let copied = 0;
  for (const { key, start, end } of membersOf(body)) {
    if (key !== '"model"' || body[start] !== '"' || !aliases.has(body.slice(start + 1, end - 1))) continue;
    replaced += body.slice(copied, start) + JSON.stringify(served);
    copied = end;
  }
  return replaced + body.slice(copied);
}

/** Nearly every body names the model itself: a look at the text saves walking through it. */
export function mayNameAlias(body: string, isAlias: (name: string) => boolean): boolean {
  for (const [, name] of body.matchAll(/"model"\s*:\s*"([^"\\]*)"/g)) if (isAlias(name!)) return true;
  return false;
}
