import { expect, it } from 'vitest';
import { AliasFigures } from '../../../src/fleet/alias-figures.ts';
import { alias } from '../../support/aliased-queue.ts';
import { ended } from '../../support/request-records.ts';

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;
const TABLE = {
  name: alias('big', { then: ['small'], on: ['no_worker'], mirror: { model: 'new', share: 0.1 } }),
};
const NOTHING = {
  is_mirror: false,
  requests: 0,
  share: null,
  errors: 0,
  fell: 0,
  first_token_p50_ms: null,
  first_token_p95_ms: null,
};
const asked = (model: string, fallback: string | null = null) => ({ alias: 'name', model, fallback });

it('shows every model of an alias in its order, also where nothing was asked for', () => {
  expect(new AliasFigures().rows(TABLE, NOW)).toEqual([
    {
      alias: 'name',
      models: [
        { model: 'big', ...NOTHING },
        { model: 'small', ...NOTHING },
        { model: 'new', ...NOTHING, is_mirror: true },
      ],
    },
  ]);
});

it('counts requests where they ended, copies apart, and no mistakes of callers as errors', () => {
  const figures = new AliasFigures();
  const failed = { outcome: 'failed' } as const;
  figures.add(
    [
      ended('a', { ...asked('big'), first_token_ms: 100, stands_for: 2 }),
      ended('b', { ...asked('big'), ...failed, error_code: 'http_400' }),
      ended('c', { ...asked('big'), ...failed, error_code: 'engine_died' }),
      ended('d', { ...asked('big'), outcome: 'rejected', error_code: 'no_worker' }),
      ended('e', { ...asked('big'), outcome: 'rejected', error_code: 'limit' }),
      ended('f', { ...asked('big'), outcome: 'cancelled' }),
      ended('g', { ...asked('small', 'no_worker'), first_token_ms: 900 }),
      ended('h', asked('new', 'mirror')),
      ended('i', { model: 'big' }),
    ],
    NOW,
  );
  const { models } = figures.rows(TABLE, NOW)[0]!;
  expect(models).toMatchObject([
    { model: 'big', requests: 5, share: 5 / 6, errors: 2, fell: 0 },
    { model: 'small', requests: 1, share: 1 / 6, errors: 0, fell: 1 },
    { model: 'new', is_mirror: true, requests: 1, share: null },
  ]);
  const [big, small] = models;
  expect(big!.first_token_p50_ms).toBeLessThanOrEqual(100);
  expect(small!.first_token_p50_ms).toBeGreaterThan(500);
});

it('looks back ten minutes, and shows an alias that is not in the file while it is asked for', () => {
  const figures = new AliasFigures();
  figures.add([ended('a', asked('big'))], NOW);
  expect(figures.rows({}, NOW + 9 * MINUTE)).toMatchObject([{ alias: 'name', models: [{ requests: 1 }] }]);
  expect(figures.rows({}, NOW + 10 * MINUTE)).toEqual([]);
  figures.bound(NOW + 10 * MINUTE);
  expect(figures.rows(TABLE, NOW + 10 * MINUTE)[0]!.models[0]).toEqual({ model: 'big', ...NOTHING });
});
