import type { EngineDescription } from '../kinds/description.ts';

/**
 * Returns the number that a flag sets as `--name N` or `--name=N`, with hyphens or underscores; the last one counts.
 */
export function numberAfter(names: readonly string[], args: readonly string[]): number | null {
  let found: number | null = null;
  for (const [index, word] of args.entries()) {
    const [name = '', value = args[index + 1]] = word.split('=', 2);
    if (!names.includes(name.replaceAll('_', '-')) || value === undefined) continue;
    if (/^[1-9]\d{0,6}$/.test(value)) found = Number(value);
  }
  return found;
}

/**
 * Returns how many requests an engine runs side by side, as far as its arguments tell; more requests wait in it.
 * @param args the arguments that it was started with
 */
export function requestsSideBySide({ sideBySide }: EngineDescription, args: readonly string[]): number {
  const each = sideBySide.flag === null ? null : numberAfter([sideBySide.flag], args);
  // Each of several data-parallel ranks takes as many requests.
  const ranks = each === null ? null : numberAfter(['--data-parallel-size', '-dp'], args);
  return (each ?? sideBySide.usual) * (ranks ?? 1);
}
