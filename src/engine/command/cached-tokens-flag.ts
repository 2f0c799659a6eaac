import type { EngineDescription } from '../kinds/description.ts';
import type { DefaultArguments } from './flag-arguments.ts';

/** It tells how much of each prompt it had computed, which the queue holds its guesses against (docs/prefixes.md). */
export function defaultCachedTokens({
  cachedTokensFlag: flag,
}: Pick<EngineDescription, 'cachedTokensFlag'>): DefaultArguments {
  return { arguments: flag ? [{ words: [flag], flag, from: 'worker-vllm' }] : [], env: {} };
}
