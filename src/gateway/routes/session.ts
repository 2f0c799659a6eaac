import { parseValue, type SessionView, SignIn } from '../../protocol/index.ts';
import { SCOPES, type Scope } from '../../settings/token-entry.ts';
import { rejectStrangers } from '../auth/authorize.ts';
import { requireOwnPage, signedIn, signIn, signOut } from '../auth/sign-in.ts';
import { entryOfToken, isOpen } from '../auth/tokens.ts';
import { readValue } from '../bodies/body.ts';
import type { AuthSettings } from '../env.ts';
import { HttpError } from '../errors.ts';
import { queueIdOf } from '../objects/ids.ts';
import { basePathOf } from './page.ts';
import { type Gateway, route } from './route.ts';

/** The scopes that are of no use on the page. */
const OF_PROGRAMS: readonly Scope[] = ['worker', 'launcher', 'gateway'];

/** The most bytes of a sign-in: far more than a token has. */
const SIGN_IN_BYTES = 8192;

const SESSION = { schema: 'SessionView' } as const;

/** Registers the routes that sign a person in to the page and out again. */
export function sessionRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/session',
    tag: 'Page',
    summary: 'Who is signed in',
    scopes: [],
    answers: { 200: { description: 'Whom the page acts for.', content: SESSION } },
    errors: [503],
    handler: async (context) => {
      queueIdOf(context.env, context.req.raw);
      return context.json(await sessionOf(context.req.raw, context.env));
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/session',
    tag: 'Page',
    summary: 'Signs in: a token is given once, and a cookie stands for it',
    description:
      'Taken from a page of this gateway alone, by Sec-Fetch-Site or Origin. The cookie is good for 12 hours.',
    scopes: [],
    body: { schema: 'SignIn', example: { token: 'wv_…' } },
    answers: { 200: { description: 'Signed in.', content: SESSION } },
    errors: [400, 413, 503],
    handler: async (context) => {
      const { env } = context;
      const request = context.req.raw;
      queueIdOf(env, request);
      requireOwnPage(request);
      const given = parseValue(SignIn, await readValue(request, env, SIGN_IN_BYTES));
      if (!given.ok) throw new HttpError(400, `Not a sign-in: ${given.message}`, 'invalid_sign_in');
      if (isOpen(env)) return context.json(await sessionOf(request, env));
      const entry = await entryOfToken(given.value.token.trim(), env);
      if (entry.scopes.every((scope) => OF_PROGRAMS.includes(scope))) {
        throw new HttpError(
          403,
          `The token "${entry.name}" is for workers, launchers and gateways. Sign in with one that has the scope read, submit or admin: "npx worker-vllm token create --scope read" makes one.`,
          'scope_missing',
        );
      }
      const { cookie, expires_at } = await signIn(request, env, entry, basePathOf(request), Date.now());
      context.header('set-cookie', cookie);
      return context.json(viewOf(entry, expires_at));
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/api/session',
    tag: 'Page',
    summary: 'Signs out',
    scopes: [],
    answers: { 204: { description: 'Signed out.' } },
    errors: [503],
    handler: async (context) => {
      const { env } = context;
      const request = context.req.raw;
      queueIdOf(env, request);
      requireOwnPage(request);
      context.header('set-cookie', await signOut(request, env, basePathOf(request)));
      return context.body(null, 204);
    },
  });
}

async function sessionOf(request: Request, env: AuthSettings): Promise<SessionView> {
  if (isOpen(env)) {
    rejectStrangers(request, env.LOCAL_HOSTS);
    return { asks_for_token: false, name: null, scopes: [...SCOPES], expires_at: null };
  }
  const found = await signedIn(request, env);
  if (found === null) return { asks_for_token: true, name: null, scopes: [], expires_at: null };
  return viewOf(found.entry, found.expires_at);
}

function viewOf({ name, scopes }: Pick<SessionView, 'name' | 'scopes'>, expiresAt: number): SessionView {
  return { asks_for_token: true, name, scopes, expires_at: new Date(expiresAt).toISOString() };
}
