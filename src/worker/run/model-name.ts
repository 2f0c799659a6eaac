import { type Json, jsonFields, parseJsonBytes, withMembers } from '../../protocol/index.ts';

/**
 * Puts the served model's name where the body's own `model` is an alias, and leaves every other byte alone.
 * @param body JSON of an object; anything else is returned as it is
 */
export function replaceModelAlias(body: Json, aliases: ReadonlySet<string>, served: string): Json {
  if (aliases.size === 0) return body;
  try {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { model } = jsonFields(bytes, ['model'], Number.POSITIVE_INFINITY);
    const name = model === undefined ? null : parseJsonBytes(model);
    if (typeof name !== 'string' || !aliases.has(name)) return body;
    return withMembers(body, { model: JSON.stringify(served) });
  } catch {
    // The engine reports the fault of the body.
    return body;
  }
}
