import { randomBytes } from 'node:crypto';
import { UserError } from '../../process/index.ts';
import type { NewToken, TokenView } from '../../protocol/index.ts';
import {
  changedEntry,
  type TokenBounds,
  type TokenChanges,
  type TokenEntry,
} from '../../settings/token-entry.ts';
import { readTokenUses } from '../../state/token-uses.ts';
import { changeTokenFile, makeToken, readTokenFile, storeToken } from '../../state/tokens.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';

/** A place that stores tokens: the state folder of a queue, or a running queue, which is called over HTTP. */
export interface TokenPlace {
  create(name: string, bounds: TokenBounds): Promise<NewSecret>;
  list(): Promise<Listed>;
  set(name: string, changes: TokenChanges): Promise<void>;
  rotate(name: string): Promise<NewSecret>;
  revoke(name: string): Promise<void>;
  /** The sentence for a person whose token was made. */
  note: string;
}

/** The tokens of a place. */
interface Listed {
  tokens: TokenView[];
  /** Whether it is known when each token was last used. */
  areUsesKnown: boolean;
}

/** A new secret, which is shown only once. */
export type NewSecret = Pick<NewToken, 'token' | 'name'>;

/** Returns the tokens of a state folder. @throws UserError in each method, as those of state/tokens.ts do */
export function tokensOfFolder(stateDir: string): TokenPlace {
  return {
    note: `${stateDir}/tokens.json keeps its SHA-256. A queue that runs on this folder knows it in a moment, unless it was started without any token.`,
    create: async (name, { scopes, ...bounds }) => {
      const { token, entry } = makeToken(name, scopes, bounds);
      await storeToken(stateDir, { ...entry, created_at: new Date().toISOString() });
      return { token, name };
    },
    list: async () => {
      const entries = await readTokenFile(stateDir);
      const uses = readTokenUses(stateDir);
      const tokens = entries.map((entry) => viewOf(entry, uses?.get(entry.sha256) ?? null));
      return { tokens, areUsesKnown: uses !== null };
    },
    set: (name, changes) =>
      changeTokenFile(stateDir, (entries) =>
        entries.map((own) => (own === found(entries, name) ? changedEntry(own, changes) : own)),
      ),
    rotate: async (name) => {
      const { token, entry } = makeToken(name, ['read']);
      await changeTokenFile(stateDir, (entries) =>
        entries.map((own) => (own === found(entries, name) ? { ...own, sha256: entry.sha256 } : own)),
      );
      return { token, name };
    },
    revoke: (name) =>
      changeTokenFile(stateDir, (entries) => entries.filter((own) => own !== found(entries, name))),
  };
}

/** Returns the tokens of a running queue. @throws UserError in each method, as `askQueueJson` does */
export function tokensOfQueue(target: QueueTarget): TokenPlace {
  const ask = <T>(path: string, init: Parameters<typeof askQueueJson>[2] = {}) =>
    askQueueJson<T>(target, `/api/tokens${path}`, { ...init, scope: 'admin' });
  const path = (name: string) => `/${encodeURIComponent(name)}`;
  return {
    note: `The queue at ${target.url} keeps its SHA-256.`,
    create: (name, bounds) => ask('', { method: 'POST', body: { name, ...bounds } }),
    list: async () => ({ ...(await ask<{ tokens: TokenView[] }>('')), areUsesKnown: true }),
    set: async (name, changes) => void (await ask(path(name), { method: 'PATCH', body: changes })),
    rotate: (name) => ask(`${path(name)}/rotate`, { method: 'POST' }),
    revoke: async (name) => void (await ask(path(name), { method: 'DELETE' })),
  };
}

export function randomName(scopes: readonly string[]): string {
  return `${scopes.join('-')}-${randomBytes(3).toString('hex')}`;
}

/** Finds a token's entry. @throws UserError if there is none */
function found(entries: readonly TokenEntry[], name: string): TokenEntry {
  const entry = entries.find((own) => own.name === name);
  if (entry) return entry;
  throw new UserError(
    `There is no token named "${name}" in this folder: "worker-vllm token list" shows them.`,
  );
}

function viewOf(entry: TokenEntry, lastUsed: number | null): TokenView {
  const { sha256: _, ...bounds } = entry;
  return {
    worker_id: null,
    highest_priority: null,
    default_priority: null,
    weight: null,
    models: null,
    routes: null,
    limits: null,
    store: null,
    keep: null,
    stored_bytes: null,
    created_at: null,
    expires_at: null,
    last_used_at: lastUsed === null ? null : new Date(lastUsed).toISOString(),
    ...bounds,
    tenant: entry.tenant ?? entry.name,
    source: 'file',
    oidc: null,
  };
}
