import { describe, expect, it } from 'vitest';
import type { TokenEntry } from '../../../src/settings/token-entry.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';

/** The entries of people who sign in at an issuer, as the fleet object of the default queue keeps them. */

const MOST = 10_000;
const MADE = '2026-01-01T00:00:00.000Z';

const hashOf = (subject: string) => subject.padStart(64, '0');

function seen(subject: string, group = 'ml', names = [`oidc:${subject}`]) {
  const oidc = { issuer: 'https://login.example.com', subject, group };
  return { names, entry: { scopes: ['submit' as const], sha256: hashOf(subject), created_at: MADE, oidc } };
}

/** A fleet that knows as many people as it keeps. */
function full(more: (n: number) => Partial<TokenEntry> = () => ({})) {
  const fleet = new FleetHarness();
  for (let n = 0; n < MOST; n++) {
    const { names, entry } = seen(String(n));
    const row = { ...entry, name: names[0]!, ...more(n) };
    fleet.sql.exec(`INSERT INTO tokens (name, entry) VALUES (?, ?)`, row.name, JSON.stringify(row));
  }
  const names = () => new Set(fleet.rules.tokens.list(null).entries!.map(({ name }) => name));
  return { fleet, tokens: fleet.rules.tokens, names };
}

describe('the people whom a fleet knows', () => {
  it('are bounded: whoever was not here for longest goes', () => {
    const { tokens, names } = full();
    const at = Date.parse(MADE);
    const uses = Array.from({ length: MOST }, (_, n) => ({ sha256: hashOf(String(n)), at: at + n * 1000 }));
    tokens.uses([...uses.slice(1), { sha256: hashOf('0'), at: at + MOST * 1000 }], at);
    tokens.see(seen('new'));
    expect(names().size).toBe(MOST);
    expect(names().has('oidc:new')).toBe(true);
    expect(names().has('oidc:1')).toBe(false);
    expect(names().has('oidc:0')).toBe(true);
    // People take no room from tokens.
    const token = { name: 'team-a', sha256: 'f'.repeat(64), scopes: ['submit' as const] };
    expect(tokens.change({ kind: 'add', entry: token }, at)).toMatchObject({ name: 'team-a' });
  });

  it('leave nobody out whom an administrator has bounded or revoked', () => {
    const { tokens, names } = full((n) => (n === 7 ? {} : { limits: { running: 1 } }));
    tokens.see(seen('new'));
    expect(names().has('oidc:7')).toBe(false);
    tokens.change({ kind: 'revoke', name: 'oidc:new' }, Date.parse(MADE));
    expect(tokens.see(seen('newer'))).toBe('too_many_tokens');
  });

  it('have the group that the newest token says, whichever comes last', () => {
    const { tokens } = new FleetHarness().rules;
    const groupBy = (group: string, issued_at: number) => {
      const person = seen('ada', group);
      const oidc = { ...person.entry.oidc, issued_at };
      const answer = tokens.see({ ...person, entry: { ...person.entry, oidc } });
      return typeof answer === 'string' ? answer : answer.entry.oidc?.group;
    };
    expect(groupBy('admins', 100)).toBe('admins');
    expect(groupBy('readers', 200)).toBe('readers');
    expect(groupBy('admins', 150)).toBe('readers');
    expect(groupBy('admins', 300)).toBe('admins');
  });

  it('are told apart by subject, not by name', () => {
    const { tokens } = { tokens: new FleetHarness().rules.tokens };
    const names = (subject: string) => ['oidc:shared@example.com', `oidc:${subject}`];
    const nameOf = (subject: string) => {
      const answer = tokens.see(seen(subject, 'ml', names(subject)));
      return typeof answer === 'string' ? answer : answer.entry.name;
    };
    expect([nameOf('a'), nameOf('b'), nameOf('a')]).toEqual([
      'oidc:shared@example.com',
      'oidc:b',
      'oidc:shared@example.com',
    ]);
    expect(tokens.see(seen('c', 'ml', ['oidc:b']))).toBe('token_exists');
  });
});
