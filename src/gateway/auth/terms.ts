import { targetsOf } from '../../aliases/resolve.ts';
import type { SubmitJob } from '../../queue/rpc.ts';
import type { TokenEntry } from '../../settings/token-entry.ts';
import type { Env } from '../env.ts';
import { callFleet, callQueue } from '../objects/calls.ts';
import { namedQueues } from '../objects/ids.ts';
import { endTokens } from '../objects/sockets.ts';
import { submitterOf } from './authorize.ts';
import { allTokens, auditConfiguredTokens, configuredTokens, isOpen, replaceTokens } from './tokens.ts';

/** The known lengths of models may be this many ms old. */
const FRESH_MS = 30_000;

/** The number of tokens that a prompt and its answer may have together. */
interface Lengths {
  /** By the names of models and aliases. */
  byName: ReadonlyMap<string, number>;
  /** The length of the only model whose length is known; null: there are others, or none. */
  only: number | null;
}

const lengths = new Map<string, { at: number; lengths: Promise<Lengths> }>();

/**
 * Everything that a token submits carries these to the queue: its limits, its weight, and whether it is kept. They are
 * empty where no tokens are configured.
 */
export type Terms = Pick<SubmitJob, 'limits' | 'weight' | 'keep'>;

function termsOfToken(token: TokenEntry | null): Terms {
  if (token === null) return {};
  const { limits = null, weight, keep } = token;
  return { limits, ...(weight !== undefined && { weight }), ...(keep !== undefined && { keep }) };
}

/** Returns a token's tenant and name, and the terms of its jobs. */
export function submissionOf(token: TokenEntry | null): ReturnType<typeof submitterOf> & Terms {
  return { ...submitterOf(token), ...termsOfToken(token) };
}

/**
 * Reports the limits of tokens to queues, which may then admit jobs that older limits held back.
 * @param queues left out for all of them
 */
export async function reportLimits(
  env: Env,
  entries: readonly TokenEntry[],
  queues: readonly string[] = namedQueues(env),
): Promise<void> {
  const told = entries.map((entry) => ({ ...submitterOf(entry), limits: entry.limits ?? null }));
  // A queue that does not answer learns the limits with the token's next request.
  await Promise.allSettled(queues.map((id) => callQueue(env, id, (queue) => queue.reportLimits(told))));
}

/** Reports to all queues the limits of the tokens in a file that was read again. */
function reportLimitsOfFile(env: Env): Promise<void> {
  return reportLimits(env, configuredTokens(env));
}

/**
 * Returns how many tokens a prompt and its answer may have together; null where no worker has reported it for this
 * model.
 */
export async function lengthOfModel(env: Env, queueId: string, model: string | null): Promise<number | null> {
  let known = lengths.get(queueId);
  if (!known || Date.now() - known.at > FRESH_MS) {
    known = { at: Date.now(), lengths: readLengths(env, queueId) };
    lengths.set(queueId, known);
  }
  const { byName, only } = await known.lengths;
  return byName.get(model ?? '') ?? only;
}

async function readLengths(env: Env, queueId: string): Promise<Lengths> {
  const found = new Map<string, number>();
  // Without the models, the estimate of a request's cost is only less exact.
  const models = await callFleet(env, queueId, (fleet) => fleet.models()).catch(() => []);
  for (const { id, card } of models) {
    const length = (card as { max_model_len?: unknown } | null)?.max_model_len;
    if (typeof length === 'number' && length > 0) found.set(id, length);
  }
  const only = found.size === 1 ? [...found.values()][0]! : null;
  const aliases = await callQueue(env, queueId, (queue) => queue.aliases()).catch(() => ({}));
  for (const alias of Object.keys(aliases)) {
    const known = targetsOf(aliases, alias).map((model) => found.get(model) ?? 0);
    // The request may go to any of them: a limit has to hold for the longest.
    if (Math.max(...known) > 0) found.set(alias, Math.max(...known));
  }
  return { byName: found, only };
}

/** Returns the terms of tokens by their names, for jobs that are submitted later than they were requested. */
export async function termsByName(env: Env): Promise<(tokenName: string | null) => Terms> {
  if (isOpen(env)) return () => ({});
  const entries = new Map((await allTokens(env)).map((entry) => [entry.name, entry]));
  return (tokenName) => {
    const entry = entries.get(tokenName ?? '');
    if (entry) return termsOfToken(entry);
    // The last terms hold for a token that was taken away. What it said of keeping is not known any more.
    return tokenName === null ? {} : { keep: false };
  };
}

/**
 * Configures these tokens from now on; connections and requests of tokens that are not among them end.
 * @param text as `env.TOKENS`
 * @throws Error when the text is not what `worker-vllm token create` writes
 */
export async function takeTokens(env: Env, text: string): Promise<void> {
  const ended = replaceTokens(text, env);
  await reportLimitsOfFile(env);
  await endTokens(env, ended);
  // If the audit cannot record this now, it does so with the next use of a token; no token is good for longer because
  // of that.
  await auditConfiguredTokens(env).catch(() => {});
}
