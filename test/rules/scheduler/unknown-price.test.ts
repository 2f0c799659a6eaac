import { describe, expect, it } from 'vitest';
import { FleetSpec } from '../../../src/scheduler/spec.ts';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

/** A fleet that wants four workers, and whose file leaves their price to the provider. */
function fleetOf(budget: object, driver = 'runpod'): SchedulerHarness {
  const fleet = new SchedulerHarness();
  const chat = { model: 'tiny', min: 4, max: 4, machines: [{ provider: 'here', instance_type: 'H100' }] };
  fleet.scheduler.specs.apply(
    FleetSpec.parse({ budget, providers: { here: { driver } }, pools: { chat } }),
    false,
  );
  fleet.list([]);
  return fleet;
}

/** How many launches are ordered within ten seconds. */
function launchesOf(fleet: SchedulerHarness): number {
  let orders = 0;
  for (let n = 0; n < 10; n++) {
    fleet.reconcile();
    orders += fleet.sync().orders.length;
  }
  return orders;
}

describe('a price that only the provider knows', () => {
  it('is waited for where there is a budget, which holds from the first launch', () => {
    const fleet = fleetOf({ per_hour: 7 });
    expect(launchesOf(fleet)).toBe(0);
    expect(fleet.scheduler.scaling()?.pools.get('chat')?.decision?.text).toContain(
      'provider here has not told the price of H100 yet',
    );
    fleet.sync({ prices: [{ provider: 'here', instance_type: 'H100', price_per_hour: 3 }] });
    expect(launchesOf(fleet)).toBe(2);
    expect(fleet.scheduler.scaling()?.summary.price_per_hour).toBe(6);
  });

  it('is not waited for where nothing limits it, or where no provider tells one', () => {
    expect(launchesOf(fleetOf({}))).toBe(4);
    expect(launchesOf(fleetOf({ per_hour: 7 }, 'process'))).toBe(4);
  });

  it('is for one GPU, and counts for each of a machine when a file is applied', () => {
    const fleet = fleetOf({});
    fleet.sync({ prices: [{ provider: 'here', instance_type: 'H100', price_per_hour: 3 }] });
    const chat = { model: 'tiny', max: 2, machines: [{ provider: 'here', instance_type: 'H100', gpus: 4 }] };
    const spec = FleetSpec.parse({ providers: { here: { driver: 'runpod' } }, pools: { chat } });
    expect(fleet.scheduler.specs.apply(spec, true)).toMatchObject({ price_per_hour: { min: 0, max: 24 } });
  });
});
