import { describe, expect, it } from 'vitest';
import { pagePath } from '../../../src/gateway/routes/page.ts';

const at = (path: string, headers: Record<string, string> = {}) =>
  new Request(`http://queue${path}`, { headers });

describe('the path of the page', () => {
  it.each([
    ['/', './'],
    ['/queue', './'],
    ['/queue/', '../'],
    ['/workers/w-1', '../'],
    ['/workers/w-1/', '../../'],
  ])('is relative to what was asked for: %s', (path, root) => {
    expect(pagePath(at(path))).toBe(root);
    const below = new URL(`https://proxy/some/prefix${path}`);
    expect(new URL(root, below).pathname).toBe('/some/prefix/');
  });

  it("is the proxy's word where it gives one", () => {
    expect(pagePath(at('/queue', { 'x-forwarded-prefix': '/team' }))).toBe('/team/');
    expect(pagePath(at('/jobs/1', { 'x-forwarded-prefix': '/team/' }))).toBe('/team/');
  });

  it.each(['//other.example', '/a"b', 'https://other.example/', '/<b>', ' '])(
    'is nothing that could lead elsewhere: %j',
    (prefix) => {
      expect(pagePath(at('/', { 'x-forwarded-prefix': prefix }))).toBe('./');
    },
  );
});
