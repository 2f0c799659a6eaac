import { describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

/** Three workers that are ready, and busy. */
function three(pool: object) {
  const fleet = new SchedulerHarness();
  fleet.apply({ slots: 1, min: 3, ...pool });
  fleet.list([]);
  for (let n = 0; n < 4; n++) {
    fleet.reconcile();
    for (const order of fleet.sync().orders) {
      fleet.result(order.launch_id, 1, { kind: 'launched', external_id: order.name, price_per_hour: 2 });
      fleet.session(order.name, { capacity: 1, running: 1 });
    }
  }
  fleet.reconcile();
  const alive = () => fleet.rows().filter(({ state }) => state === 'ready');
  const look = (seconds: number) => {
    for (let s = 0; s < seconds; s += 5) {
      fleet.list(alive().map(({ name }) => ({ name, external_id: name })));
      fleet.reconcile(5);
    }
  };
  expect(alive()).toHaveLength(3);
  look(400);
  return { fleet, alive, look };
}

describe('max that is lowered', () => {
  it.each([0, 1])('is kept to at once: %i', (max) => {
    const { fleet, alive, look } = three({ scale_down_after: '1h' });
    fleet.apply({ slots: 1, min: 0, max, scale_down_after: '1h' });
    look(10);
    expect(alive()).toHaveLength(max);
  });
});
