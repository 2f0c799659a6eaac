import { describe, expect, it } from 'vitest';
import {
  type By,
  costInWords,
  groupsOf,
  nearEnd,
  sharingInWords,
  type UsageRow,
} from '../../../src/dashboard/usage.ts';
import type { LimitView } from '../../../src/protocol/index.ts';

const row = (more: Partial<UsageRow>): UsageRow => ({
  start: '2026-01-01T00:00:00.000Z',
  requests: 1,
  failed: 0,
  input: 0,
  cached: 0,
  output: 0,
  wasted: 0,
  slot_ms: 10,
  unpriced_slot_ms: 0,
  dollars: null,
  ...more,
});

describe('usage', () => {
  const usage = [
    row({ tenant: 'a', output: 100, dollars: 1 }),
    row({ tenant: 'b', output: 300, unpriced_slot_ms: 10 }),
    row({ tenant: 'a', output: 400, start: '2026-01-02T00:00:00.000Z', unpriced_slot_ms: 10 }),
  ];
  const answer = { usage, total: row({ output: 800 }), idle: [], stored: [] };

  it('is put together by who used it, the most first, and by day, the newest first', () => {
    expect(groupsOf(answer, 'tenant')).toMatchObject([
      {
        name: 'a',
        requests: 2,
        output: 500,
        dollars: 1,
        slot_ms: 20,
        unpriced_slot_ms: 10,
        share: 500 / 800,
      },
      { name: 'b', requests: 1, output: 300, dollars: null, share: 300 / 800 },
    ]);
    expect(groupsOf(answer, 'day').map(({ name, output }) => [name, output])).toEqual([
      ['2026-01-02', 400],
      ['2026-01-01', 400],
    ]);
  });

  it('has what was idle as its last row, whatever it is put together by', () => {
    const idle = [
      { start: '2026-01-01T00:00:00.000Z', config_id: 'big', dollars: 6 },
      { start: '2026-01-02T00:00:00.000Z', config_id: 'big', dollars: 2 },
    ];
    for (const by of ['tenant', 'day'] as const)
      expect(groupsOf({ ...answer, idle }, by)[2]).toMatchObject({ isIdle: true, dollars: 8, share: null });
  });

  it('has what each tenant stores, also of one that used nothing', () => {
    const stored = [
      { tenant: 'a', bytes: 7 },
      { tenant: 'c', bytes: 9 },
    ];
    const of = (by: By) => groupsOf({ ...answer, stored }, by).map(({ name, stored }) => [name, stored]);
    expect(of('tenant')).toEqual([
      ['a', 7],
      ['b', null],
      ['c', 9],
    ]);
    expect(of('model')).toEqual([['', null]]);
  });

  it.each([
    [{ dollars: 3.2 }, '$3.20'],
    [{ dollars: 3.2, unpriced_slot_ms: 5 }, '≥ $3.20'],
    [{ dollars: null, unpriced_slot_ms: 5 }, 'unknown'],
    [{ dollars: null }, 'unknown'],
    [{ dollars: null, slot_ms: 0 }, '–'],
  ])('costs %j in words', (cost, words) => {
    expect(costInWords(row(cost))).toBe(words);
  });
});

describe('who waits for whom', () => {
  const share = (tenant: string, waiting: number, tokens: number) => ({ tenant, waiting, tokens });
  it.each([
    [
      'a',
      [share('b', 3, 710), share('a', 1, 290)],
      "b had 71 % of the last hour's tokens; 2 tenants wait with 4 jobs, and a is next.",
    ],
    [
      'b',
      [share('b', 1, 30), share('a', 0, 10)],
      "b had 75 % of the last hour's tokens and waits with 1 job.",
    ],
    ['b', [share('b', 2, 0), share('a', 0, 0)], 'b waits with 2 jobs.'],
    [
      null,
      [share('', 2, 30), share('a', 0, 10)],
      "callers without a token had 75 % of the last hour's tokens and wait with 2 jobs.",
    ],
    ['b', [share('b', 1, 10)], 'b waits with 1 job.'],
    // There are no tenants.
    [null, [share('', 3, 10)], null],
    [null, [share('b', 0, 10)], null],
  ])('with %j as the next', (next, tenants, words) => {
    const tokens = tenants.reduce((sum, one) => sum + one.tokens, 0);
    expect(sharingInWords({ config_id: 'cfg', next, tokens, tenants })).toBe(words);
  });
});

describe('a limit near its end', () => {
  const NO_LIMIT = { used: 0, limit: null };
  const limit = (more: Partial<LimitView>): LimitView => ({
    token_name: 'ci',
    tenant: null,
    models: null,
    requests_per_minute: NO_LIMIT,
    tokens_per_minute: NO_LIMIT,
    tokens_per_day: NO_LIMIT,
    tokens_per_month: NO_LIMIT,
    dollars_per_day: NO_LIMIT,
    dollars_per_month: NO_LIMIT,
    running: NO_LIMIT,
    held: 0,
    ...more,
  });
  it.each([
    [{ dollars_per_day: { used: 4.5, limit: 5 } }, '$4.50 of $5.00 a day'],
    [{ dollars_per_day: { used: 0.05, limit: 5 } }, undefined],
    // What holds them is not the budget, of which nearly all is left.
    [
      { dollars_per_day: { used: 0.05, limit: 5 }, held: 3 },
      '3 jobs held back: they need more than is left of its limits',
    ],
    [{ running: { used: 1, limit: 1 }, held: 1 }, '1 of 1 requests at a time, 1 job held back'],
  ])('%j: %s', (more, what) => {
    expect(nearEnd(limit(more))?.what).toBe(what);
  });
});
