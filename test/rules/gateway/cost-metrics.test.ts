import { expect, it } from 'vitest';
import { exposition } from '../../../src/gateway/metrics/exposition.ts';
import { families } from '../../../src/gateway/metrics/families.ts';
import { settle } from '../../support/limited-requests.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** What `GET /metrics` says of money. */

/** 36 dollars an hour over 4 slots: a slot costs a fourth of a cent a second. */
const PRICED = { capacity: 4, instance: { price_per_hour: 36 } };

const lines = (queue: QueueHarness, name: string) => {
  const metrics = { ...queue.queue.read('metrics'), storage_bytes: 0, relays: null };
  const text = exposition(families(metrics, queue.fleet.view(), '1'));
  return text.split('\n').filter((line) => line.startsWith(`worker_vllm_${name}{`));
};

function run(
  queue: QueueHarness,
  tenant: string,
  seconds: number,
  more: Record<string, unknown> = PRICED,
): void {
  const worker = queue.worker('w', more);
  queue.request({ tenant, token_name: tenant });
  queue.advance(seconds);
  settle(queue, worker);
  queue.drop(worker);
}

it('slots cost what their workers do by pool and tenant, over a restart too', () => {
  const queue = new QueueHarness();
  run(queue, 'a', 10);
  run(queue, 'b', 20);
  run(queue, 'a', 10);
  queue.advance(2);
  queue.restart();
  expect(lines(queue, 'cost_dollars_total')).toEqual([
    'worker_vllm_cost_dollars_total{pool="cfg",tenant="a"} 0.05',
    'worker_vllm_cost_dollars_total{pool="cfg",tenant="b"} 0.05',
  ]);
});

it('what has no price is not zero: its time is told, and no cost', () => {
  const queue = new QueueHarness();
  run(queue, 'a', 10, { capacity: 4 });
  expect(lines(queue, 'cost_dollars_total')).toEqual([]);
  expect(lines(queue, 'slot_seconds_total')).toEqual([
    'worker_vllm_slot_seconds_total{pool="cfg",tenant="a",price="known"} 0',
    'worker_vllm_slot_seconds_total{pool="cfg",tenant="a",price="unknown"} 10',
  ]);
  run(queue, 'a', 10);
  expect(lines(queue, 'cost_dollars_total')).toEqual([
    'worker_vllm_cost_dollars_total{pool="cfg",tenant="a"} 0.025',
  ]);
});

it('tenants have a bound: those that came later are one', () => {
  const queue = new QueueHarness();
  for (let n = 0; n < 60; n++) run(queue, `team-${n}`, 1);
  const costs = lines(queue, 'cost_dollars_total');
  expect(costs).toHaveLength(51);
  expect(costs.at(-1)).toBe('worker_vllm_cost_dollars_total{pool="cfg",tenant="other"} 0.025');
});
