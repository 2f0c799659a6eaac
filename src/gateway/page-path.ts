/**
 * Where the page's root is, with a slash at its end: what the proxy says in `X-Forwarded-Prefix`, else relative to the
 * address asked for, which holds behind every proxy that strips a path and whose users' addresses end with a slash.
 * The header needs no setting to be believed: it changes only the answer to its own sender, and can name no other host.
 */
export function pagePath(request: Request): string {
  const path = request.headers.get('x-forwarded-prefix');
  if (path && isPlainPath(path)) return `${path.replace(/\/$/, '')}/`;
  const { pathname } = new URL(request.url);
  return '../'.repeat(pathname.split('/').length - 2) || './';
}

/** Whether it can stand in an address, and in an attribute, as it is. */
function isPlainPath(text: string): boolean {
  return /^(?:\/[\w.~-]+)+\/?$/.test(text);
}
