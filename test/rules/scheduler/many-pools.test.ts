import { expect, it } from 'vitest';
import { FleetSpec } from '../../../src/scheduler/spec.ts';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

it('takes back a spec of 6,000 pools at once, and decides over them', () => {
  const fleet = new SchedulerHarness();
  const chat = { model: 'tiny', machines: [{ provider: 'here' }] };
  const pools = Object.fromEntries(Array.from({ length: 6000 }, (_, n) => [`c-${n}`, chat]));
  fleet.scheduler.specs.apply(FleetSpec.parse({ providers: { here: { driver: 'process' } }, pools }), false);
  fleet.reconcile();
  expect(fleet.scheduler.scaling()?.pools.size).toBe(6000);
  expect(fleet.scheduler.specs.remove(false)?.changes).toHaveLength(6001);
  fleet.reconcile();
  const stored = fleet.database.prepare(`SELECT sum(length(value)) AS length FROM scheduler`).get();
  expect(stored?.length).toBeLessThan(10_000);
});
