import { expect, it } from 'vitest';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { ended } from '../../support/request-records.ts';

const NOTHING = {
  requests: 0,
  errors: 0,
  first_token_p50_ms: null,
  first_token_p95_ms: null,
  tokens_per_second: null,
};

it('tells what workers did in the last ten minutes, of those that are asked for', () => {
  const fleet = new FleetHarness();
  const { rules } = fleet;
  const records = [
    ended('a', { worker_id: 'new', wait_ms: 400, first_token_ms: 480, total_ms: 1480, tokens_out: 101 }),
    ended('b', { worker_id: 'new', first_token_ms: null, total_ms: 1000, tokens_out: 100, stands_for: 3 }),
    ended('c', { worker_id: 'old', first_token_ms: 8, total_ms: 8, tokens_out: 1 }),
  ];
  rules.record([], undefined, records);
  const figures = rules.figures.of(['new'], fleet.nowMs);
  // The wait for the slot is not the engine's.
  expect(figures).toMatchObject({ requests: 4, errors: 0, tokens_per_second: 100 });
  expect(figures.first_token_p50_ms).toBeGreaterThan(60);
  expect(figures.first_token_p95_ms).toBeLessThanOrEqual(80);
  expect(rules.figures.of(['new', 'old'], fleet.nowMs).requests).toBe(5);
  // A report that comes twice changes nothing.
  rules.record([], undefined, records);
  expect(rules.figures.of(['new'], fleet.nowMs)).toEqual(figures);
  fleet.advance(9 * 60);
  expect(rules.figures.of(['new'], fleet.nowMs)).toEqual(figures);
  fleet.advance(60);
  expect(rules.figures.of(['new'], fleet.nowMs)).toEqual(NOTHING);
});

it('errors are those of workers and engines, not those of callers', () => {
  const fleet = new FleetHarness();
  const failed = { outcome: 'failed' } as const;
  fleet.rules.record(
    [],
    undefined,
    [
      ended('fine'),
      ended('bad request', { ...failed, error_code: 'http_400' }),
      ended('broken', { ...failed, error_code: 'http_500' }),
      ended('counted by its attempts', { ...failed, error_code: 'engine_died' }),
      ended('gone', { outcome: 'cancelled' }),
      ended('turned away', { outcome: 'rejected', worker_id: null }),
    ],
    { w: 2 },
  );
  expect(fleet.rules.figures.of(['w'], fleet.nowMs)).toMatchObject({ requests: 5, errors: 3 });
});
