import { describe, expect, it } from 'vitest';
import { readExport } from '../../../src/features/usage-export/routes.ts';
import { COLUMNS, FORMATS, idleRow, usageRow } from '../../../src/features/usage-export/rows.ts';
import { USAGE_AMOUNTS, type UsageSum } from '../../../src/queue/rpc.ts';

const NOTHING = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, 0])) as Record<string, number>;
const START = Date.UTC(2026, 10, 3) / 1000;
const sum = (more: object = {}) =>
  ({
    start: START,
    ...NOTHING,
    tenant: 'team',
    token_name: 'ci',
    config_id: 'cfg',
    model: 'tiny',
    mode: 'batch',
    ...more,
  }) as UsageSum;

/** The cells of a line by the names of their columns, as a reader of RFC 4180 takes them. */
function cells(line: string): Record<string, string> {
  const found = [...line.slice(0, -2).matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g)];
  return Object.fromEntries(
    COLUMNS.map((name, n) => [name, found[n]?.[1]?.replaceAll('""', '"') ?? found[n]?.[2] ?? 'missing']),
  );
}
const csv = (more: object) => cells(FORMATS.csv.line(usageRow(sum(more))));

describe('a row of an export', () => {
  it('is CSV with a head, and names in quotes where they need some', () => {
    expect(FORMATS.csv.head).toMatch(/^kind,day,tenant,token_name,.*,dollars\r\n$/);
    expect(FORMATS.csv.line(usageRow(sum({ tenant: 'a, "b"', input: 12 })))).toBe(
      'usage,2026-11-03,"a, ""b""",ci,cfg,tiny,batch,0,0,0,0,12,0,0,0,0,0,0,0,\r\n',
    );
  });

  it.each(['=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\rx', '=HYPERLINK("http://x","y")'])(
    'is no formula where a name is %j',
    (name) => {
      for (const column of ['tenant', 'token_name', 'config_id', 'model'])
        expect(csv({ [column]: name })[column]).toBe(`'${name}`);
      expect(JSON.parse(FORMATS.jsonl.line(usageRow(sum({ tenant: name })))).tenant).toBe(name);
    },
  );

  it('tells a price that is not known from no cost, and never writes an exponent', () => {
    expect(csv({ slot_ms: 1500, unpriced_slot_ms: 1500 })).toMatchObject({
      slot_seconds: '1.5',
      unpriced_slot_seconds: '1.5',
      dollars: '',
    });
    expect(csv({ slot_ms: 2000, unpriced_slot_ms: 500, nanodollars: 7 })).toMatchObject({
      unpriced_slot_seconds: '0.5',
      dollars: '0.000000007',
    });
    expect(csv({ slot_ms: 10 }).dollars).toBe('0.000000000');
    expect(usageRow(sum({ slot_ms: 1, unpriced_slot_ms: 1 })).dollars).toBeNull();
  });

  it('of idle machines has a day, a pool and dollars alone', () => {
    const row = idleRow({ day: START, config_id: 'cfg', dollars: 1.25 });
    const { kind, day, config_id, dollars, ...rest } = row;
    expect([kind, day, config_id, dollars]).toEqual(['idle', '2026-11-03', 'cfg', 1.25]);
    expect(new Set(Object.values(rest))).toEqual(new Set([null]));
    expect(cells(FORMATS.csv.line(row))).toMatchObject({ kind: 'idle', tenant: '', dollars: '1.250000000' });
  });
});

describe('what an export is asked for', () => {
  const now = Date.UTC(2026, 10, 29, 1);
  it('is a whole month of UTC, also over a new year', () => {
    const { wanted, period, format } = readExport({ month: '2026-12' }, now);
    expect([wanted.from, wanted.to]).toEqual([Date.UTC(2026, 11) / 1000, Date.UTC(2027, 0) / 1000]);
    expect([period, format]).toEqual(['2026-12', 'csv']);
  });

  it('is a month of which all days are kept', () => {
    expect(readExport({ month: '2025-11' }, now).wanted.from).toBe(Date.UTC(2025, 10) / 1000);
    expect(() => readExport({ month: '2025-10' }, now)).toThrow('month: 2025-10 is not kept whole any more');
    expect(readExport({ since: '2025-10-25', until: '2025-11-01' }, now).period).toBe(
      '2025-10-25-to-2025-10-31',
    );
  });

  it.each([
    [{ month: '2026-13' }, 'month: expected a month such as 2026-11'],
    [{ month: '2026-11', since: '2026-11-02' }, 'since: give either month or since'],
    [{ mode: 'live' }, 'mode: expected waiting, stored, batch, not "live"'],
    [{ format: 'xlsx' }, 'format: expected csv or jsonl'],
    [{ group_by: 'model' }, 'group_by: there is no such parameter'],
  ])('is refused for %j', (query, message) => {
    expect(() => readExport(query as Record<string, string>, now)).toThrow(message);
  });
});
