import { addCredential } from '../../../gateway/auth/credentials.ts';
import { cameOverTls, cookieIn, requireOwnPage, signIn } from '../../../gateway/auth/sign-in.ts';
import { readValue } from '../../../gateway/bodies/body.ts';
import { HttpError, retryAfter, toHttpError } from '../../../gateway/errors.ts';
import { log } from '../../../gateway/log.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import { basePathOf, pagePath } from '../../../gateway/routes/page.ts';
import { type Gateway, type GatewayContext, route } from '../../../gateway/routes/route.ts';
import { OidcStart, type OidcView, parseValue } from '../../../protocol/index.ts';
import { jwtCredential } from './credential.ts';
import type { Begun } from './flow.ts';
import { seal, unseal } from './sealed.ts';

/** A person may take this long at the issuer, ms. */
const BEGUN_MS = 10 * 60_000;
/** The page shows why nobody was signed in within this long, ms. */
const PROBLEM_MS = 60_000;
/** The most bytes of a request: two addresses. */
const START_BYTES = 16 * 1024;

const PATH = '/api/session/oidc';
const CALLBACK = `${PATH}/callback`;
/** The cookies' names, which also say what their values are for. */
const BEGUN = 'worker-vllm-oidc';
const PROBLEM = 'worker-vllm-oidc-problem';

/** A sign-in that a browser has begun. */
type BegunHere = Begun & {
  /** The view that the person was at, relative to the page's root. */
  view: string;
};

/** Lets people sign in as themselves: to the page, and with their JWTs wherever tokens are taken. */
export function oidcRoutes(app: Gateway): void {
  addCredential(jwtCredential);

  route(app, {
    method: 'GET',
    path: PATH,
    tag: 'Page',
    summary: 'Where people sign in as themselves, and why the last sign-in of this browser failed',
    scopes: [],
    answers: { 200: { description: 'The issuer, if there is one.', content: { schema: 'OidcView' } } },
    handler: async (context) => {
      const { OIDC_ISSUER: issuer, FILE_KEY_SECRET: secret } = context.env;
      queueIdOf(context.env, context.req.raw);
      const sealed = cookieIn(context.req.raw, PROBLEM);
      const told =
        sealed && secret ? await unseal<{ text: string }>(sealed, PROBLEM, Date.now(), secret) : null;
      if (sealed) setCookie(context, `${PROBLEM}=`, 0, 'Strict');
      const view: OidcView = { issuer: issuer ? new URL(issuer).host : null, problem: told?.text ?? null };
      return context.json(view);
    },
  });

  route(app, {
    method: 'POST',
    path: PATH,
    tag: 'Page',
    summary: 'Begins a sign-in at the issuer',
    description: 'Taken from a page of this gateway alone. The browser goes to the address of the answer.',
    scopes: [],
    body: {
      schema: 'OidcStart',
      example: { page: 'https://queue.example.com/', at: 'https://queue.example.com/jobs' },
    },
    answers: { 200: { description: 'Where to go.', content: { schema: 'OidcStarted' } } },
    errors: [400, 404, 413, 503],
    handler: async (context) => {
      const { env } = context;
      const request = context.req.raw;
      queueIdOf(env, request);
      requireOwnPage(request);
      if (!env.OIDC_ISSUER) throw new HttpError(404, 'People sign in with tokens here.', 'no_issuer');
      const given = parseValue(OidcStart, await readValue(request, env, START_BYTES));
      if (!given.ok) throw new HttpError(400, `Not a sign-in: ${given.message}`, 'invalid_sign_in');
      const { page, view } = addressesOf(given.value, request);
      const { begin } = await import('./flow.ts');
      const { url, begun } = await begin(new URL(CALLBACK.slice(1), page).href, env);
      const here: BegunHere = { ...begun, view };
      const sealed = await seal(here, BEGUN, Date.now() + BEGUN_MS, secretOf(context));
      // The issuer sends the browser back from another site, so the cookie cannot be Strict.
      setCookie(context, `${BEGUN}=${sealed}`, BEGUN_MS, 'Lax');
      return context.json({ url });
    },
  });

  route(app, {
    method: 'GET',
    path: CALLBACK,
    tag: 'Page',
    summary: 'Ends a sign-in: the issuer sends the browser here',
    scopes: [],
    answers: { 302: { description: 'To the page, signed in, or with the reason why not.' } },
    errors: [503],
    handler: async (context) => {
      const { env } = context;
      const request = context.req.raw;
      queueIdOf(env, request);
      const root = pagePath(request);
      setCookie(context, `${BEGUN}=`, 0, 'Lax');
      try {
        const begun = await begunIn(context);
        const { end } = await import('./flow.ts');
        const claims = await end(new URL(request.url).search, begun, env);
        const { entryOfClaims } = await import('./person.ts');
        const entry = await entryOfClaims(claims, env, `GET ${CALLBACK}`);
        const { cookie } = await signIn(request, env, entry, basePathOf(request), Date.now());
        context.header('set-cookie', cookie, { append: true });
        return context.redirect(root + begun.view);
      } catch (error) {
        const { message, status } = toHttpError(error, context.get('requestId'));
        log(status >= 500 ? 'warn' : 'info', `nobody was signed in: ${message}`);
        const until = Date.now() + PROBLEM_MS;
        const sealed = await seal({ text: message }, PROBLEM, until, secretOf(context));
        setCookie(context, `${PROBLEM}=${sealed}`, PROBLEM_MS, 'Strict');
        return context.redirect(root);
      }
    },
  });
}

/** @throws HttpError 403 where this browser has begun no sign-in, or a long time ago */
async function begunIn(context: GatewayContext): Promise<BegunHere> {
  const sealed = cookieIn(context.req.raw, BEGUN);
  const begun = sealed && (await unseal<BegunHere>(sealed, BEGUN, Date.now(), secretOf(context)));
  if (begun) return begun;
  const message = 'This sign-in was begun in another browser, or took longer than ten minutes: try it again.';
  throw new HttpError(403, message, 'sign_in_failed');
}

/** Sets a cookie of this gateway for its page. @param forMs 0: the browser forgets it */
function setCookie(
  { req, header }: GatewayContext,
  pair: string,
  forMs: number,
  site: 'Lax' | 'Strict',
): void {
  const path = basePathOf(req.raw);
  const secure = cameOverTls(req.raw) ? '; Secure' : '';
  const value = `${pair}; Path=${path}; Max-Age=${forMs / 1000}; HttpOnly; SameSite=${site}${secure}`;
  header('set-cookie', value, { append: true });
}

/**
 * Returns the root of the page, as the browser sees it behind any proxy, and the view in it.
 * @throws HttpError 400 where it is none of this gateway's
 */
function addressesOf({ page: root, at }: OidcStart, request: Request): { page: URL; view: string } {
  const hosts = [request.headers.get('host'), request.headers.get('x-forwarded-host')];
  const [page, there] = [root, at].map((text) => (URL.canParse(text) ? new URL(text) : null));
  const isOwn = page && /^https?:.*\/$/.test(root) && hosts.includes(page.host);
  // An address of its origin and path alone has neither a query nor a user name.
  if (isOwn && page.origin + page.pathname === root && there?.href.startsWith(root)) {
    // A view that begins with a slash would make the address back another host's.
    return { page, view: there.href.slice(root.length).replace(/^\/+/, '') };
  }
  const message = 'page: expected the address of the root of this page, and at: the address of a view in it';
  throw new HttpError(400, message, 'invalid_sign_in');
}

/** @throws HttpError 503 where there is no secret to sign a cookie with */
function secretOf({ env }: GatewayContext): string {
  if (env.FILE_KEY_SECRET) return env.FILE_KEY_SECRET;
  const message =
    'Nobody can sign in at the issuer: the secret FILE_KEY_SECRET is not set. Set it to a long random text ("npx wrangler secret put FILE_KEY_SECRET").';
  log('error', message);
  throw new HttpError(503, message, 'file_key_secret_missing', retryAfter(60));
}
