import type { AliasTable } from '../../aliases/alias.ts';
import type { TokenEntry } from '../../settings/token-entry.ts';
import type { Env } from '../env.ts';
import { callQueue } from '../objects/calls.ts';

/** Returns the aliases that decide what a token may ask for: none are needed where it may ask for every model. */
export async function aliasesFor(env: Env, queueId: string, token: TokenEntry | null): Promise<AliasTable> {
  return token?.models ? await callQueue(env, queueId, (queue) => queue.aliases()) : {};
}
