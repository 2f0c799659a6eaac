import { expect, it } from 'vitest';
import { type CallsOf, callsOf, type Exposed, expose } from '../../../src/durable/calls.ts';
import type { HostedObject } from '../../../src/durable/host.ts';

const TABLE = {
  /** Adds to what there is. */
  plus: (on: { has: number }, more: number) => on.has + more,
};

class Counter extends (class {} as new () => Exposed<typeof TABLE>) implements Required<HostedObject> {
  static {
    expose(Counter, TABLE, async (object, name, asked) => TABLE[name](object, ...(asked as [number])));
  }

  has = 1;
  readonly pings = { ping: 'ping', pong: 'pong' };

  async own(): Promise<number> {
    return this.has;
  }

  async alarm(): Promise<void> {}
  mayOpen(): null {
    return null;
  }
  opened(): void {}
  async message(): Promise<void> {}
  async closed(): Promise<void> {}
  clockSetBack(): void {}
}

it('exposes the calls of a table and the methods of the class, and nothing that the host alone calls', async () => {
  expect(callsOf(Counter.prototype).sort()).toEqual(['own', 'plus']);
  const stub: Pick<CallsOf<Counter>, 'own' | 'plus'> = new Counter();
  expect(await stub.plus(2)).toBe(3);
  // @ts-expect-error no stub has what the host alone calls
  const _alarm: keyof CallsOf<Counter> = 'alarm';
});
