import type { RouteRow } from '../types.ts';

const SESSION = { schema: 'SessionView' } as const;

/** Signing in to the page. */
export const page: RouteRow[] = [
  {
    method: 'GET',
    path: '/api/session',
    tag: 'Page',
    summary: 'Who is signed in',
    scopes: [],
    answers: { 200: { description: 'Whom the page acts for.', content: SESSION } },
    errors: [503],
  },
  {
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
  },
  {
    method: 'DELETE',
    path: '/api/session',
    tag: 'Page',
    summary: 'Signs out',
    scopes: [],
    answers: { 204: { description: 'Signed out.' } },
    errors: [503],
  },
];
