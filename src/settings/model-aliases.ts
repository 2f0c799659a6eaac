/**
 * Reads model names by alias from `alias=model,alias=model`.
 * @throws Error that says what is wrong
 */
export function parseModelAliases(text: string): ReadonlyMap<string, string> {
  const aliases = new Map<string, string>();
  for (const entry of text.split(',').map((part) => part.trim())) {
    if (entry === '') continue;
    const [, alias, model] = /^([^=]+?)\s*=\s*(.+)$/.exec(entry) ?? [];
    if (alias === undefined || model === undefined) {
      throw new Error(`expected alias=model, comma-separated, such as "gpt-4o=my-model"; got "${entry}"`);
    }
    if (alias === 'default') throw new Error('"default" is the model that is there, and cannot be an alias');
    if (aliases.has(alias)) throw new Error(`the alias "${alias}" is there twice`);
    aliases.set(alias, model);
  }
  for (const [alias, model] of aliases) {
    if (aliases.has(model))
      throw new Error(`the alias "${alias}" stands for "${model}", which is an alias itself`);
  }
  return aliases;
}
