import { describe, expect, it } from 'vitest';
import { takeTurn } from '../../../src/gateway/bodies/receive.ts';

const KIB = 1024;

describe.each([
  ['is woken', { wakesRequests: true }],
  ['polls', {}],
])('a submission that %s', (_, env) => {
  it('waits until the one before has room for it, and has the thread for itself where it is longer', async () => {
    const order: string[] = [];
    const first = await takeTurn(200 * KIB, env);
    const begin = async (name: string, bytes: number) => {
      const end = await takeTurn(bytes, env);
      order.push(name);
      return end;
    };
    const beside = await begin('beside', 50 * KIB);
    const long = begin('long', 900 * KIB);
    await new Promise((done) => setTimeout(done, 20));
    expect(order).toEqual(['beside']);
    first();
    first();
    await new Promise((done) => setTimeout(done, 20));
    expect(order).toEqual(['beside']);
    beside();
    const end = await long;
    const last = begin('last', KIB);
    await new Promise((done) => setTimeout(done, 20));
    expect(order).toEqual(['beside', 'long']);
    end();
    (await last)();
    expect(order).toEqual(['beside', 'long', 'last']);
  });
});

describe('submissions that are woken', () => {
  const env = { wakesRequests: true };

  it('begin in the order in which they came, a short one too', async () => {
    const order: number[] = [];
    const held = await takeTurn(256 * KIB, env);
    const all = [200, 100, 1].map(async (kib, index) => {
      const end = await takeTurn(kib * KIB, env);
      order.push(index);
      return end;
    });
    held();
    const end = await all[0]!;
    expect(order).toEqual([0]);
    end();
    for (const turn of all) (await turn)();
    expect(order).toEqual([0, 1, 2]);
  });
});
