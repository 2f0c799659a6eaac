import { describe, expect, it } from 'vitest';
import type { AuditWanted } from '../../../src/fleet/audit.ts';
import { AUDIT_ACTIONS, AuditEntry } from '../../../src/protocol/index.ts';
import type { TokenEntry } from '../../../src/settings/token-entry.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';

/** What people did, as the fleet object of the default queue keeps it. */

const DAY_MS = 86_400_000;
const ANY: AuditWanted = {
  since: null,
  until: null,
  actor: null,
  action: null,
  target: null,
  before: null,
  limit: 100_000,
};

function harness() {
  const fleet = new FleetHarness();
  const list = (wanted: Partial<AuditWanted> = {}) =>
    fleet.rules.audit.list({ ...ANY, ...wanted }, fleet.nowMs);
  let ids = 0;
  const begin = (more: Partial<Parameters<typeof fleet.rules.audit.begin>[0]> = {}) => {
    const id = `id-${++ids}`;
    const deed = {
      action: 'token.revoke',
      target: 'team-a',
      before: null,
      route: 'r',
      queue_id: 'q',
    } as const;
    fleet.rules.audit.begin(
      { id, actor: 'operator', subject: null, tenant: 'ops', ...deed, ...more },
      fleet.nowMs,
    );
    return id;
  };
  const end = (id: string, outcome: 'done' | 'refused' | 'failed' = 'done', after: unknown = null) =>
    fleet.rules.audit.end(id, { outcome, after, error: outcome === 'done' ? null : 'why' }, fleet.nowMs);
  return { fleet, list, begin, end };
}

describe('an action', () => {
  it('is begun before it is done, and ends once', () => {
    const { fleet, list, begin, end } = harness();
    const id = begin({ before: { scopes: ['read'] } });
    expect(list()).toMatchObject([{ outcome: 'begun', ended_at: null, after: null }]);
    fleet.nowMs += 1500;
    end(id, 'done', { scopes: ['submit'] });
    end(id, 'failed');
    const [entry] = list();
    expect(AuditEntry.strict().parse(entry)).toEqual({
      seq: 1,
      at: '2026-01-01T00:00:00.000Z',
      actor: 'operator',
      subject: null,
      tenant: 'ops',
      action: 'token.revoke',
      target: 'team-a',
      before: { scopes: ['read'] },
      after: { scopes: ['submit'] },
      outcome: 'done',
      error: null,
      ended_at: '2026-01-01T00:00:01.500Z',
      route: 'r',
      queue_id: 'q',
    });
  });

  it('that is told twice is recorded once', () => {
    const { list, begin, end } = harness();
    begin({ id: 'same' });
    end('same', 'refused');
    begin({ id: 'same' });
    expect(list()).toMatchObject([{ outcome: 'refused', error: 'why' }]);
  });

  it('whose end was never told stays begun over a restart', () => {
    const { fleet, list, begin, end } = harness();
    begin();
    fleet.restart();
    expect(list()).toMatchObject([{ outcome: 'begun' }]);
    end(begin());
    expect(list().map(({ outcome }) => outcome)).toEqual(['done', 'begun']);
  });

  it('leaves out what is too long to keep', () => {
    const { list, begin, end } = harness();
    end(begin({ before: 'x'.repeat(20_000) }), 'done', 'short');
    expect(list()).toMatchObject([{ before: { left_out: '20002 characters' }, after: 'short' }]);
  });
});

describe('the list', () => {
  it('is newest first, and can be asked for in parts and pages', () => {
    const { fleet, list, begin } = harness();
    const started = fleet.nowMs;
    begin({ target: 'a' });
    fleet.nowMs += 1000;
    begin({ target: 'b', action: 'pool.pause', actor: 'other' });
    fleet.nowMs += 1000;
    begin({ target: 'c', actor: null });
    const targets = (wanted: Partial<AuditWanted>) => list(wanted).map(({ target }) => target);
    expect(targets({})).toEqual(['c', 'b', 'a']);
    expect(targets({ limit: 2 })).toEqual(['c', 'b']);
    expect(targets({ before: 2 })).toEqual(['a']);
    expect(targets({ actor: 'operator' })).toEqual(['a']);
    expect(targets({ action: 'pool.pause' })).toEqual(['b']);
    expect(targets({ target: 'c' })).toEqual(['c']);
    expect(targets({ since: started + 1000 })).toEqual(['c', 'b']);
    expect(targets({ until: started + 1000 })).toEqual(['a']);
    expect(targets({ actor: 'operator', action: 'pool.pause' })).toEqual([]);
  });
});

describe('what is kept', () => {
  it('is 400 days, told no longer, also where nothing new comes', () => {
    const { fleet, list, begin } = harness();
    begin({ target: 'old' });
    fleet.nowMs += 400 * DAY_MS - 1;
    expect(list()).toHaveLength(1);
    fleet.nowMs += 1;
    expect(list()).toEqual([]);
    begin({ target: 'new' });
    const rows = fleet.database.prepare('SELECT target FROM audit').all();
    expect(rows.map(({ target }) => target)).toEqual(['new']);
  });

  it('is the newest 10,000 of an action, and no other action loses any by it', () => {
    const { fleet, list, begin } = harness();
    const first = begin({ action: 'token.create' });
    fleet.database.exec('BEGIN');
    for (let n = 0; n < 10_010; n++) begin({ action: 'job.cancel', target: `job-${n}` });
    fleet.database.exec('COMMIT');
    fleet.restart();
    const jobs = list({ action: 'job.cancel' });
    expect([jobs.length, jobs[0]?.target, jobs.at(-1)?.target]).toEqual([10_000, 'job-10009', 'job-10']);
    expect(first).toBe('id-1');
    expect(list({ action: 'token.create' })).toHaveLength(1);
  });
});

describe('tokens that stand in a file', () => {
  const token = (name: string, more: Partial<TokenEntry> = {}): TokenEntry => ({
    name,
    sha256: name.padEnd(64, '0'),
    scopes: ['submit'],
    ...more,
  });

  it('are recorded as they change, without their hashes, also while nothing runs', () => {
    const { fleet, list } = harness();
    const told = (...entries: TokenEntry[]) =>
      fleet.rules.audit.tokensOfFile(entries, 'default', fleet.nowMs);
    const news = () => list().map(({ action, target, outcome }) => [action, target, outcome].join(' '));
    told(token('a'), token('b'));
    expect(news()).toEqual(['token.create b done', 'token.create a done']);
    told(token('b'), token('a'));
    fleet.restart();
    told(token('a'), token('b'));
    expect(news()).toHaveLength(2);
    told(token('a', { sha256: 'f'.repeat(64) }), token('b', { scopes: ['read'] }), token('c'));
    expect(news().slice(0, 3)).toEqual(['token.create c done', 'token.change b done', 'token.rotate a done']);
    told(token('c'));
    expect(news().slice(0, 2)).toEqual(['token.revoke b done', 'token.revoke a done']);
    expect(list({ target: 'b', action: 'token.change' })).toMatchObject([
      {
        actor: null,
        route: 'token file',
        before: [{ name: 'b', scopes: ['submit'] }],
        after: [{ name: 'b', scopes: ['read'] }],
      },
    ]);
    expect(JSON.stringify(list())).not.toMatch(/sha256|0{32}|f{32}/);
  });
});

it('every action has a name of its own', () => {
  expect(new Set(AUDIT_ACTIONS).size).toBe(AUDIT_ACTIONS.length);
});
