import { FakeDriver } from '../../../src/providers/fakes/fake-driver.ts';
import { FakeProvider } from '../../../src/providers/fakes/fake-provider.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

driverContract('the made-up one of tests and of the simulation', () => {
  const clock = new VirtualClock();
  const provider = new FakeProvider(clock);
  return { driver: new FakeDriver(provider), provider, clock };
});
