import { describe, expect, it } from 'vitest';
import {
  OIDC_SETTINGS,
  oidcSettingsProblem,
  parseOidcRules,
  personNow,
  ruleFor,
} from '../../../src/settings/oidc.ts';
import type { TokenEntry } from '../../../src/settings/token-entry.ts';

const RULES = JSON.stringify([
  { group: 'admins', scopes: ['admin'] },
  { group: 'ml', scopes: ['submit'], tenant: 'research', weight: 2, limits: { running: 3 } },
  { group: '*', scopes: ['read'] },
]);
const ENV = { OIDC_ISSUER: 'https://login.example.com', OIDC_RULES: RULES };

function person(group: string, more: Partial<TokenEntry> = {}): TokenEntry {
  const oidc = { issuer: ENV.OIDC_ISSUER, subject: '1', group };
  return { name: 'oidc:ada@example.com', sha256: '0'.repeat(64), scopes: ['read'], oidc, ...more };
}

describe('the rules', () => {
  it('are tried in their order', () => {
    const groupOf = (...groups: string[]) => ruleFor(groups, parseOidcRules(RULES))?.group;
    expect(groupOf('ml', 'admins')).toBe('admins');
    expect(groupOf('guests', 'ml')).toBe('ml');
    expect(groupOf()).toBe('*');
    expect(ruleFor(['guests'], parseOidcRules('[{"group":"ml","scopes":["read"]}]'))).toBeUndefined();
  });

  it.each([
    ['{', /^expected JSON/],
    ['{}', /^expected a list$/],
    ['[]', /^expected one rule at least, such as .*: without any, nobody can sign in$/],
    ['[{"group":"a"}]', /^rule number 1: scopes is missing$/],
    ['[{"group":"a","scopes":["worker"]}]', /^rule number 1: scopes.0 expected one of submit, read, admin$/],
    ['[{"group":"a","scopes":["read"],"modles":["x"]}]', /^rule number 1: .*modles.*did you mean models/],
    ['[{"group":"a","scopes":["read"],"expires_at":"2030-01-01T00:00:00Z"}]', /expires_at/],
    ['[{"group":"a","scopes":["read"],"limits":{"runing":1}}]', /^rule number 1: limits .*runing/],
    ['[{"group":"a","scopes":["read"]},{"group":"a","scopes":["admin"]}]', /"a" is there twice/],
  ])('%s are refused', (text, message) => {
    expect(() => parseOidcRules(text)).toThrow(message);
  });
});

describe('the entry of a person', () => {
  it('has the bounds of the rule now, and over them what an administrator has set', () => {
    const entry = person('ml', { limits: { running: 1 } });
    expect(personNow(entry, ENV)).toMatchObject({
      scopes: ['submit'],
      tenant: 'research',
      weight: 2,
      limits: { running: 1 },
    });
    expect(
      personNow(person('ml'), { ...ENV, OIDC_RULES: '[{"group":"ml","scopes":["admin"]}]' }),
    ).toMatchObject({ scopes: ['admin'], tenant: 'oidc:1' });
  });

  it('is good for nothing without its rule, and at another issuer', () => {
    expect(personNow(person('guests'), ENV)).toBeNull();
    expect(personNow(person('ml'), { ...ENV, OIDC_ISSUER: 'https://other.example.com' })).toBeNull();
    expect(personNow(person('ml'), {})).toBeNull();
  });
});

describe('the settings', () => {
  it('name what is missing beside them', () => {
    expect(oidcSettingsProblem({})).toBeNull();
    expect(oidcSettingsProblem({ ...ENV, OIDC_CLIENT_ID: 'queue' })).toBeNull();
    expect(oidcSettingsProblem(ENV)).toMatch(/^QUEUE_OIDC_ISSUER is set without QUEUE_OIDC_CLIENT_ID:/);
    expect(oidcSettingsProblem({ OIDC_CLIENT_SECRET: 'x' })).toMatch(
      /^QUEUE_OIDC_CLIENT_SECRET is set without QUEUE_OIDC_ISSUER and QUEUE_OIDC_CLIENT_ID and QUEUE_OIDC_RULES:/,
    );
  });

  it.each([
    ['http://login.example.com', /expected https/],
    ['login.example.com', /expected an https/],
    ['https://user:pass@login.example.com', /without a user name/],
    ['https://login.example.com/?tenant=1', /without a user name, a query/],
  ])('refuse the issuer %s', (issuer, message) => {
    expect(() => OIDC_SETTINGS.oidc_issuer.check(issuer)).toThrow(message);
  });

  it.each(['https://login.example.com/realms/main', 'http://127.0.0.1:5556/dex', 'http://localhost:8080'])(
    'take the issuer %s',
    (issuer) => {
      OIDC_SETTINGS.oidc_issuer.check(issuer);
    },
  );
});
