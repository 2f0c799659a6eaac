import type { MiddlewareHandler } from 'hono';
import { type Page, type PageFile, unpackPage } from '../../dashboard/archive.ts';
import { rejectStrangers } from '../auth/authorize.ts';
import { isOpen } from '../auth/tokens.ts';
import { HttpError } from '../errors.ts';
import type { Environment, Gateway, GatewayContext } from './route.ts';

/** The addresses of the page's views (src/dashboard/router.ts tells them apart). */
const VIEWS = [
  '/',
  '/workers/:id',
  '/queue',
  '/requests',
  '/jobs',
  '/jobs/:id',
  '/responses',
  '/responses/:id',
  '/batches',
  '/spend',
  '/tokens',
  '/alerts',
  '/audit',
  '/usage',
  '/try',
];

const IMMUTABLE = 'public, max-age=31536000, immutable';

/**
 * Registers the dashboard: one document for all of its views, and the files that it loads.
 * @returns the handler for an address of no route, which shows a browser the same document as a 404
 */
export function pageRoutes(app: Gateway, packed: ArrayBuffer): MiddlewareHandler<Environment> {
  const page = unpackPage(packed);
  const files = new Map(page.files.map((file) => [file.name, file]));
  for (const view of VIEWS) {
    app.get(view, (context) => {
      if (isBrowser(context)) return documentOf(page, context);
      throw forBrowsers(context.req.path);
    });
  }
  app.get('/assets/:name', (context) => {
    const file = files.get(context.req.param('name'));
    if (file) return asset(file, context.req.header('accept-encoding') ?? '');
    throw new HttpError(404, 'The page has no such file; reload it.', 'asset_not_found');
  });
  return async (context, next) => (isBrowser(context) ? documentOf(page, context, 404) : await next());
}

/** Returns whether a person's browser sent a request, and not a client of the API. */
function isBrowser({ req }: GatewayContext): boolean {
  return /\btext\/html\b/.test(req.header('accept') ?? '');
}

function forBrowsers(path: string): HttpError {
  const message =
    `${path} is a view of the dashboard, which browsers are shown (Accept: text/html). Programs find the state of the ` +
    'queue at /health and its routes at /openapi.json.';
  return new HttpError(404, message, 'route_not_found');
}

/**
 * Returns the page's document.
 * @throws HttpError 403 where no tokens are configured and the request comes from elsewhere than this machine
 */
function documentOf({ index, version }: Page, { req, env }: GatewayContext, status = 200): Response {
  // The page's API would refuse strangers everything.
  if (isOpen(env)) rejectStrangers(req.raw, env.LOCAL_HOSTS);
  const root = pagePath(req.raw);
  const etag = `"${version}${root.replaceAll(/[^\w./-]/g, '')}"`;
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-cache',
    vary: 'accept, x-forwarded-prefix',
    etag,
    'content-security-policy': contentSecurityPolicy(req.raw),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
  };
  if (status === 200 && req.header('if-none-match')?.includes(etag))
    return new Response(null, { status: 304, headers });
  return new Response(index.replaceAll('{{root}}', root), { status, headers });
}

/**
 * Returns a policy that allows nothing of another host and nothing inline. Safari before 15.4 does not take a
 * WebSocket for `'self'`.
 */
function contentSecurityPolicy(request: Request): string {
  const { host } = new URL(request.url);
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    `connect-src 'self' ws://${host} wss://${host}`,
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

/** Returns a file of the page. Its name changes with its content, so a browser never has to request it again. */
function asset({ contentType, plain, brotli }: PageFile, accepted: string): Response {
  const headers = {
    'content-type': contentType,
    'cache-control': IMMUTABLE,
    'x-content-type-options': 'nosniff',
    vary: 'accept-encoding',
  };
  if (!/\bbr\b/.test(accepted)) return new Response(plain, { headers });
  // The bytes go out as they are; only Cloudflare's runtime knows the option.
  const init = { headers: { ...headers, 'content-encoding': 'br' }, encodeBody: 'manual' } as const;
  return new Response(brotli, init);
}

/**
 * Returns the path of the page's root, with a slash at its end: the proxy's `X-Forwarded-Prefix`, else a path relative
 * to the requested address, which holds behind every proxy that strips a path and whose users' addresses end with a
 * slash. The header is believed without a setting: it changes only the answer to its own sender, and can name no other
 * host.
 */
export function pagePath(request: Request): string {
  const path = request.headers.get('x-forwarded-prefix');
  if (path && isPlainPath(path)) return `${path.replace(/\/$/, '')}/`;
  const { pathname } = new URL(request.url);
  return '../'.repeat(pathname.split('/').length - 2) || './';
}

/**
 * Returns the path of the page for browsers, as far as it is known: the whole host behind a proxy that strips a path
 * without saying so.
 */
export function basePathOf(request: Request): string {
  const path = pagePath(request);
  return path.startsWith('/') ? path : '/';
}

/** Returns whether a text can stand in an address, and in an attribute, unescaped. */
function isPlainPath(text: string): boolean {
  return /^(?:\/[\w.~-]+)+\/?$/.test(text);
}
