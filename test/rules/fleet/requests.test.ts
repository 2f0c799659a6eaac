import { expect, it } from 'vitest';
import { Requests } from '../../../src/fleet/requests.ts';
import type { RequestFilter, RequestsWanted } from '../../../src/fleet/rpc.ts';
import type { RequestRecord } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { ended } from '../../support/request-records.ts';

type Wanted = Partial<Omit<RequestsWanted, 'filter'>> & { filter?: Partial<RequestFilter> };

const ANY: RequestFilter = {
  outcome: null,
  kind: null,
  model: null,
  config_id: null,
  route: null,
  tenant: null,
  token_name: null,
  worker_id: null,
  error_code: null,
  is_slow: null,
};
const ALL: RequestsWanted = {
  filter: ANY,
  id: null,
  text: null,
  since: null,
  until: null,
  before: null,
  limit: 50,
  viewer: null,
};

function list(
  fleet: FleetHarness,
  { filter, ...wanted }: Wanted = {},
): { ids: string[]; next: number | null } {
  const page = fleet.rules.requests.list({ ...ALL, ...wanted, filter: { ...ANY, ...filter } });
  return { ids: page.requests.map(({ id }) => id), next: page.next };
}

function fleetWith(...records: RequestRecord[]): FleetHarness {
  const fleet = new FleetHarness();
  fleet.rules.record([], undefined, records);
  return fleet;
}

it('requests are listed newest first, page by page, and survive a restart', () => {
  const fleet = fleetWith(...['a', 'b', 'c'].map((id, n) => ended(id, { ended_at: n + 1 })));
  const first = list(fleet, { limit: 2 });
  expect(first.ids).toEqual(['c', 'b']);
  fleet.restart();
  expect(list(fleet, { limit: 2, before: first.next })).toEqual({ ids: ['a'], next: null });
  expect(fleet.rules.requests.list({ ...ALL, limit: 1 }).requests).toEqual([ended('c', { ended_at: 3 })]);
});

it('what is told twice is listed once', () => {
  const fleet = fleetWith(ended('a'));
  fleet.rules.record([], undefined, [ended('a'), ended('b')]);
  expect(list(fleet).ids).toEqual(['b', 'a']);
});

it('every filter finds what it names and nothing else', () => {
  const fleet = fleetWith(
    ended('a', { request_id: 'mine-1', model: 'llama', token_name: 'app', worker_id: 'w-1', ended_at: 100 }),
    ended('b', { outcome: 'failed', error_code: 'engine_died', error: 'CUDA out of Memory', ended_at: 200 }),
    ended('c', { is_slow: true, config_id: 'other', kind: 'batch', route: '/v1/embeddings', ended_at: 300 }),
  );
  const found = (wanted: Wanted) => list(fleet, wanted).ids.join('');
  expect(found({ id: 'mine' })).toBe('a');
  expect(found({ id: 'b' })).toBe('b');
  expect(found({ id: '%' })).toBe('');
  expect(found({ text: 'cuda OUT' })).toBe('b');
  expect(found({ since: 200 })).toBe('cb');
  expect(found({ until: 200 })).toBe('a');
  expect(found({ filter: { model: 'llama' } })).toBe('a');
  expect(found({ filter: { token_name: 'app' } })).toBe('a');
  expect(found({ filter: { worker_id: 'w-1' } })).toBe('a');
  expect(found({ filter: { outcome: 'failed' } })).toBe('b');
  expect(found({ filter: { error_code: 'engine_died' } })).toBe('b');
  expect(found({ filter: { is_slow: true } })).toBe('c');
  expect(found({ filter: { is_slow: false } })).toBe('ba');
  expect(found({ filter: { config_id: 'other', kind: 'batch', route: '/v1/embeddings' } })).toBe('c');
});

it('a tenant is shown its own alone', () => {
  const fleet = fleetWith(ended('a', { tenant: 'me' }), ended('b', { tenant: 'you' }), ended('c'));
  expect(list(fleet, { viewer: 'me' }).ids).toEqual(['a']);
  expect(list(fleet, { viewer: 'me', filter: { tenant: 'you' } })).toEqual({ ids: [], next: null });
  expect(list(fleet, { filter: { tenant: 'you' } }).ids).toEqual(['b']);
});

it('those that went well do not push out the others', () => {
  const fleet = fleetWith();
  const requests = new Requests(fleet.sql, 1000);
  requests.add([ended('bad', { outcome: 'failed' }), ended('slow', { is_slow: true })]);
  requests.add(Array.from({ length: 1010 }, (_, n) => ended(`ok-${n}.`)));
  requests.bound(0);
  expect(list(fleet, { id: 'ok-9.' }).ids).toEqual([]);
  expect(list(fleet, { id: 'ok-10.' }).ids).toEqual(['ok-10.']);
  expect(list(fleet, { id: 'bad' }).ids).toEqual(['bad']);
});

it('one far behind is found look by look, each of them short', () => {
  const fleet = fleetWith(ended('slow', { is_slow: true }));
  const many = Array.from({ length: 12_000 }, (_, n) => ended(`ok-${n}.`));
  fleet.rules.record([], undefined, many);
  const found: string[] = [];
  let [before, looks]: [number | null, number] = [null, 0];
  do {
    const page = list(fleet, { filter: { is_slow: true }, before });
    found.push(...page.ids);
    before = page.next;
    looks += 1;
  } while (before !== null);
  expect([found, looks]).toEqual([['slow'], 3]);
});

it('they are forgotten with the retention time', () => {
  const fleet = new FleetHarness({ retention_seconds: 60 });
  fleet.rules.record([], undefined, [ended('old', { ended_at: fleet.nowMs })]);
  fleet.rules.save();
  fleet.advance(59);
  expect(list(fleet).ids).toEqual(['old']);
  fleet.advance(5);
  expect(list(fleet).ids).toEqual([]);
});
