import { FORWARDED, isPlainPath } from '../settings/base-path.ts';

/**
 * Where the page's root is, with a slash at its end. Unless it is set, relative to the address asked for, which
 * holds behind every proxy that strips a path and whose users' addresses end with a slash.
 * @param setting a path, or `forwarded`
 */
export function pagePath(request: Request, setting: string | undefined): string {
  const path = setting === FORWARDED ? request.headers.get('x-forwarded-prefix') : setting;
  if (path && isPlainPath(path)) return `${path.replace(/\/$/, '')}/`;
  const { pathname } = new URL(request.url);
  return '../'.repeat(pathname.split('/').length - 2) || './';
}
