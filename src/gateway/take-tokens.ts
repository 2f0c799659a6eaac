import type { Env } from './env.ts';
import { tellLimitsOfFile } from './limits.ts';
import { endTokens } from './objects/sockets.ts';
import { auditConfiguredTokens, replaceTokens } from './tokens.ts';

/**
 * Configures these tokens from now on; connections and requests of tokens that are not among them end.
 * @param text as `env.TOKENS`
 * @throws Error when the text is not what `worker-vllm token create` writes
 */
export async function takeTokens(env: Env, text: string): Promise<void> {
  const ended = replaceTokens(text, env);
  await tellLimitsOfFile(env);
  await endTokens(env, ended);
  // If the audit cannot record this now, it does so with the next use of a token; no token is good for longer because
  // of that.
  await auditConfiguredTokens(env).catch(() => {});
}
