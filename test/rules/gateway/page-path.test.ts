import { describe, expect, it } from 'vitest';
import { pagePath } from '../../../src/gateway/page-path.ts';
import { checkBasePath } from '../../../src/settings/base-path.ts';

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
    expect(pagePath(at(path), undefined)).toBe(root);
    const below = new URL(`https://proxy/some/prefix${path}`);
    expect(new URL(root, below).pathname).toBe('/some/prefix/');
  });

  it('is what the operator sets', () => {
    expect(pagePath(at('/'), '/fleet')).toBe('/fleet/');
    expect(pagePath(at('/jobs/1'), '/fleet/')).toBe('/fleet/');
  });

  it("is the proxy's word only where that is believed", () => {
    const asked = at('/queue', { 'x-forwarded-prefix': '/team' });
    expect(pagePath(asked, undefined)).toBe('./');
    expect(pagePath(asked, 'forwarded')).toBe('/team/');
    expect(pagePath(at('/queue'), 'forwarded')).toBe('./');
  });

  it.each(['//other.example', '/a"b', 'https://other.example/', '/<b>', ' '])(
    'is nothing that could lead elsewhere: %j',
    (prefix) => {
      expect(pagePath(at('/', { 'x-forwarded-prefix': prefix }), 'forwarded')).toBe('./');
      expect(() => checkBasePath(prefix)).toThrow('expected a path such as "/fleet"');
    },
  );
});
