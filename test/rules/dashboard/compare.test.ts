import { expect, it } from 'vitest';
import { compare } from '../../../src/dashboard/views/worker-comparison.ts';
import { ended } from '../../support/request-records.ts';

/** So many requests of a worker with a first token so long after their slot. */
const requests = (worker_id: string, count: number, firstTokenMs: number, more = {}) =>
  Array.from({ length: count }, (_, i) =>
    ended(`${worker_id}-${i}`, {
      worker_id,
      wait_ms: 500,
      first_token_ms: 500 + firstTokenMs,
      total_ms: 500 + firstTokenMs + 190,
      tokens_out: 20,
      ...more,
    }),
  );

it('sets what requests took at a worker beside what they took at the others', () => {
  const own = requests('slow', 12, 230);
  const [firstToken, between, rate, failures] = compare('slow', own, [...own, ...requests('fine', 30, 100)]);
  // Waiting for a slot is not the worker's doing.
  expect(firstToken).toMatchObject({
    worker: { value: 230, n: 12 },
    pool: { value: 100, n: 30 },
    times: 2.3,
    isWorse: true,
  });
  expect(between).toMatchObject({ worker: { value: 10 }, pool: { value: 10 }, times: 1, isWorse: false });
  expect(rate).toMatchObject({ times: 1, isWorse: false });
  expect(failures).toMatchObject({ worker: { value: 0, n: 12 }, pool: { value: 0, n: 30 }, times: null });
});

it('takes few tokens a second for worse, and many for better', () => {
  const rateOf = (total_ms: number) =>
    compare('w', requests('w', 12, 100, { total_ms }), requests('fine', 12, 100))[2];
  expect(rateOf(500 + 100 + 380)).toMatchObject({ times: 0.5, isWorse: true });
  expect(rateOf(500 + 100 + 95)).toMatchObject({ times: 2, isWorse: false });
});

it('counts failures by what each request stands for, and neither callers that hung up nor deadlines', () => {
  const own = [
    ...requests('w', 2, 100, { stands_for: 9 }),
    ...requests('w', 2, 100, { outcome: 'failed' }),
    ...requests('w', 5, 100, { outcome: 'cancelled' }),
    ...requests('w', 5, 100, { outcome: 'expired' }),
  ];
  expect(compare('w', own, [])[3]).toMatchObject({
    worker: { value: 0.1, n: 4 },
    pool: { value: null, n: 0 },
  });
});

it('takes few failures for chance, however many requests there were', () => {
  const of = (worker: string, count: number, failed: number) => [
    ...requests(worker, count - failed, 100),
    ...requests(`${worker}-failing`, failed, 100, { worker_id: worker, outcome: 'failed' }),
  ];
  const pool = of('fine', 198, 2);
  expect(compare('w', of('w', 50, 4), pool)[3]).toMatchObject({ worker: { value: 0.08 }, isWorse: false });
  expect(compare('w', of('w', 50, 5), pool)[3]).toMatchObject({ worker: { value: 0.1 }, isWorse: true });
});

it('does not call a worker worse by a handful of requests, and leaves out what no worker had', () => {
  const pool = [...requests('fine', 30, 100), ended('turned-away', { worker_id: null, outcome: 'failed' })];
  const [firstToken, , , failures] = compare('w', requests('w', 3, 900), pool);
  expect(firstToken).toMatchObject({ times: 9, isWorse: false });
  expect(failures?.pool).toEqual({ value: 0, n: 30 });
  expect(compare('w', [], [])[0]).toMatchObject({ worker: { value: null, n: 0 }, times: null });
});
