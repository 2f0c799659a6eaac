import type * as z from 'zod';
import type { TokenChange } from '../../fleet/rpc.ts';
import { parseValue, protoIn, type TokenView } from '../../protocol/index.ts';
import { DEFAULT_QUEUE } from '../../settings/queue-settings.ts';
import { endedTokens, TokenChanges, type TokenEntry, TokenRequest } from '../../settings/token-entry.ts';
import { audited } from '../audit.ts';
import { reportLimits } from '../auth/terms.ts';
import {
  allTokens,
  asItHolds,
  configuredTokens,
  forgetKeptTokens,
  isOpen,
  randomToken,
  sha256Of,
  tellUses,
} from '../auth/tokens.ts';
import { readValue } from '../bodies/body.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { callFleet, callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { endTokens } from '../objects/sockets.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

const BODY_BYTES = 64 * 1024;

const NEW = { schema: 'NewToken' } as const;

/** Registers the routes that make, change and take away tokens while everything runs, for all queues. */
export function tokenRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/tokens',
    tag: 'Tokens',
    summary: 'The tokens there are, without what would let anybody use them',
    scopes: ['admin'],
    answers: { 200: { description: 'The tokens.', content: { schema: 'TokenList' } } },
    errors: [503],
    handler: async (context) => {
      queueIdOf(context.env, context.req.raw);
      return context.json({ tokens: await viewsOf(context.env) });
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/tokens',
    tag: 'Tokens',
    summary: 'Makes a token, which is shown this once',
    description: 'It is good within a second, without a restart. Only its SHA-256 is kept.',
    scopes: ['admin'],
    body: { schema: 'TokenRequest', example: { name: 'team-a', scopes: ['submit'], models: ['qwen-*'] } },
    answers: { 201: { description: 'The token and its entry.', content: NEW } },
    errors: [400, 409, 413, 503],
    handler: async (context) => {
      const { env } = context;
      queueIdOf(env, context.req.raw);
      requireTokens(env);
      const asked = await requestOf(context, TokenRequest);
      if (configuredTokens(env).some(({ name }) => name === asked.name))
        throw refusals.token_exists(asked.name);
      const token = randomToken();
      const entry: TokenEntry = {
        ...asked,
        sha256: await sha256Of(token),
        created_at: new Date().toISOString(),
      };
      await change(context, null, { kind: 'add', entry });
      forgetKeptTokens();
      return context.json({ token, ...viewOf(entry, 'api', null) }, 201);
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/tokens/:name',
    tag: 'Tokens',
    summary: 'One of them',
    scopes: ['admin'],
    answers: { 200: { description: 'The token.', content: { schema: 'TokenView' } } },
    errors: [404, 503],
    handler: async (context) => {
      queueIdOf(context.env, context.req.raw);
      const name = context.req.param('name');
      const view = (await viewsOf(context.env)).find((token) => token.name === name);
      if (!view) throw refusals.token_not_found(name);
      return context.json(view);
    },
  });

  route(app, {
    method: 'PATCH',
    path: '/api/tokens/:name',
    tag: 'Tokens',
    summary: 'Changes what it may do, in force within a second; its secret stays',
    description: 'What is left out stays as it is, null takes it away.',
    scopes: ['admin'],
    body: { schema: 'TokenChanges', example: { limits: { requests_per_minute: 60 } } },
    answers: { 200: { description: 'The token as it is now.', content: { schema: 'TokenView' } } },
    errors: [400, 404, 409, 413, 503],
    handler: async (context) => {
      const { env } = context;
      const before = await keptEntry(context);
      const { name } = before;
      const changes = await requestOf(context, TokenChanges);
      const entry = await change(context, before, { kind: 'set', name, changes });
      await endConnections(env, before, [entry]);
      await reportLimits(env, [entry]);
      return context.json(viewOf(entry, 'api', null));
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/limits',
    tag: 'Tokens',
    summary: 'How tokens stand to their limits',
    description: 'Of this queue: each counts by itself.',
    scopes: ['admin', 'read'],
    answers: { 200: { description: 'Every token that has limits.', content: { schema: 'LimitList' } } },
    errors: [503],
    handler: async (context) => {
      const { env } = context;
      const queueId = queueIdOf(env, context.req.raw);
      // Only the gateway knows a token that has not been used yet.
      await reportLimits(env, await allTokens(env), [queueId]);
      return context.json({ limits: await callQueue(env, queueId, (queue) => queue.limits()) });
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/tokens/:name/rotate',
    tag: 'Tokens',
    summary: 'Gives it another secret: the old one is refused from now on',
    scopes: ['admin'],
    answers: { 200: { description: 'The new token and its entry.', content: NEW } },
    errors: [404, 409, 503],
    handler: async (context) => {
      const { env } = context;
      const before = await keptEntry(context);
      const token = randomToken();
      const sha256 = await sha256Of(token);
      const entry = await change(context, before, { kind: 'rotate', name: before.name, sha256 });
      await endConnections(env, before, [entry]);
      return context.json({ token, ...viewOf(entry, 'api', null) });
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/api/tokens/:name',
    tag: 'Tokens',
    summary: 'Takes it away: it is refused from now on, and what was opened with it ends',
    description:
      'The entry of a person who signs in at an issuer stays, with its end; null as `expires_at` of a PATCH gives the access back.',
    scopes: ['admin'],
    answers: { 200: { description: 'What was taken away.', content: { schema: 'TokenView' } } },
    errors: [404, 409, 503],
    handler: async (context) => {
      const { env } = context;
      const before = await keptEntry(context);
      const entry = await change(context, before, { kind: 'revoke', name: before.name });
      await endConnections(env, before, []);
      return context.json(viewOf(entry, 'api', null));
    },
  });
}

const refusals = {
  token_exists: (name: string) =>
    new HttpError(
      409,
      `There is a token named "${name}" already: choose another name, or rotate that one.`,
      'token_exists',
    ),
  too_many_tokens: () =>
    new HttpError(
      409,
      'There are as many tokens as are kept: revoke those that nobody uses.',
      'too_many_tokens',
    ),
  person_has_no_secret: (name: string) =>
    new HttpError(
      409,
      `"${name}" is a person who signs in at the issuer, so there is no secret to change. DELETE ends their access.`,
      'person_has_no_secret',
    ),
  token_not_found: (name: string) =>
    new HttpError(404, `There is no token named "${name}". GET /api/tokens lists them.`, 'token_not_found'),
};

/**
 * @throws HttpError 409 where no tokens are configured: a first token made here would lock out everybody who has none
 */
function requireTokens(env: Env): void {
  if (!isOpen(env)) return;
  throw new HttpError(
    409,
    'This queue was started without tokens. Make the first one in its state folder ("npx worker-vllm token create --scope admin") and start it again; others can then be made here.',
    'tokens_needed',
  );
}

const ACTIONS = {
  add: 'token.create',
  rotate: 'token.rotate',
  set: 'token.change',
  revoke: 'token.revoke',
} as const;

/**
 * Changes a token, and records the change.
 * @throws HttpError 404 where there is none of that name, 409 where it is taken or there are too many
 */
function change(context: GatewayContext, before: TokenEntry | null, asked: TokenChange): Promise<TokenEntry> {
  const target = asked.kind === 'add' ? asked.entry.name : asked.name;
  return audited(
    context,
    { action: ACTIONS[asked.kind], target, before: before && inAudit(before) },
    async () => {
      const entry = await callFleet(context.env, DEFAULT_QUEUE, (fleet) => fleet.changeTokens(asked));
      if (typeof entry === 'string') throw refusals[entry](target);
      return asItHolds(entry, context.env);
    },
    (entry) => (asked.kind === 'revoke' ? null : inAudit(entry)),
  );
}

/** Returns what the audit records of a token. */
function inAudit({ sha256: _, ...entry }: TokenEntry): object {
  return entry;
}

/**
 * Returns the entry of the token that the path names.
 * @throws HttpError 404 where there is none, 409 where it stands in a file: the gateway cannot write it
 */
async function keptEntry({ env, req }: GatewayContext): Promise<TokenEntry> {
  queueIdOf(env, req.raw);
  const name = req.param('name') as string;
  if (!configuredTokens(env).some((entry) => entry.name === name)) {
    const { entries } = await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.tokens(null));
    const kept = entries?.find((entry) => entry.name === name);
    if (kept) return asItHolds(kept, env);
    // An unknown name is not recorded: the caller may have put the token itself there.
    throw refusals.token_not_found(name);
  }
  throw new HttpError(
    409,
    `The token "${name}" stands in the token file or in QUEUE_TOKENS: change it there ("npx worker-vllm token revoke ${name}" on the queue's machine).`,
    'token_in_file',
  );
}

/**
 * Ends what the token had open and may not go on with.
 * @param now the token's entry now, or none where the token was taken away
 */
async function endConnections(env: Env, before: TokenEntry, now: TokenEntry[]): Promise<void> {
  forgetKeptTokens();
  await endTokens(env, endedTokens([before], now));
}

async function viewsOf(env: Env): Promise<TokenView[]> {
  const all = await allTokens(env);
  const lastUsed = await tellUses(env);
  const inFile = configuredTokens(env).length;
  return all.map((entry, index) =>
    viewOf(entry, index < inFile ? 'file' : 'api', lastUsed[entry.sha256] ?? null),
  );
}

function viewOf(entry: TokenEntry, source: TokenView['source'], lastUsed: number | null): TokenView {
  const { name, scopes, tenant, worker_id, models, routes, limits, created_at, expires_at } = entry;
  return {
    name,
    scopes,
    tenant: tenant ?? name,
    worker_id: worker_id ?? null,
    highest_priority: entry.highest_priority ?? null,
    default_priority: entry.default_priority ?? null,
    weight: entry.weight ?? null,
    models: models ?? null,
    routes: routes ?? null,
    limits: limits ?? null,
    store: entry.store ?? null,
    keep: entry.keep ?? null,
    stored_bytes: entry.stored_bytes ?? null,
    created_at: created_at ?? null,
    expires_at: expires_at ?? null,
    last_used_at: lastUsed === null ? null : new Date(lastUsed).toISOString(),
    source: entry.oidc ? 'oidc' : source,
    oidc: entry.oidc ?? null,
  };
}

/** @throws HttpError 400, 413 */
async function requestOf<T>(context: GatewayContext, schema: z.ZodType<T>): Promise<T> {
  const value = await readValue(context.req.raw, context.env, BODY_BYTES);
  // Schemas ignore a member of this name silently.
  if (protoIn(value) !== null)
    throw new HttpError(400, 'Not a token: "__proto__" is no name of anything.', 'invalid_token');
  const parsed = parseValue(schema, value);
  if (parsed.ok) return parsed.value;
  throw new HttpError(400, `Not a token: ${parsed.message}`, 'invalid_token');
}
