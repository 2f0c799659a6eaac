import { expect, test } from 'vitest';
import { workerEnvironment } from '../../../src/launcher/provider.ts';
import type { Order } from '../../../src/scheduler/rpc.ts';
import { PoolSpec } from '../../../src/scheduler/spec.ts';
import { readWorkerConfiguration } from '../../../src/worker/configuration.ts';

test('a worker is launched with the adapters of its pool', () => {
  const adapters = [
    { name: 'sql', source: 'acme/llama-sql', revision: 'v2' },
    { name: 'legal', source: '/adapters/legal' },
  ];
  const machines = [{ provider: 'here' }];
  const pool = PoolSpec.parse({ engine: 'simulator', model: 'tiny', machines, max: 1, adapters });
  const order = { kind: 'launch', pool, config_id: 'cfg', name: 'w', token: 'wvl_x' } as unknown as Order;
  const road = { url: 'http://127.0.0.1:8788', queueId: 'q' };
  const env = workerEnvironment(order as Extract<Order, { kind: 'launch' }>, road, {}, 0);
  expect(readWorkerConfiguration(env).engine.adapters).toEqual(adapters);
});
