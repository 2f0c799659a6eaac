import { driverContract } from '../../support/driver-contract.ts';
import { FakeDriver } from '../../support/fakes/fake-driver.ts';
import { FakeProvider } from '../../support/fakes/fake-provider.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

driverContract('the made-up one of tests and of the simulation', () => {
  const clock = new VirtualClock();
  const provider = new FakeProvider(clock);
  return { driver: new FakeDriver(provider), provider, clock };
});
