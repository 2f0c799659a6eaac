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

/** Returns whether a text can stand in an address, and in an attribute, unescaped. */
function isPlainPath(text: string): boolean {
  return /^(?:\/[\w.~-]+)+\/?$/.test(text);
}
