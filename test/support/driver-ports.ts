import type { Fetch } from '../../src/process/http.ts';
import type { DriverPorts } from '../../src/providers/driver.ts';
import type { VirtualClock } from './virtual-clock.ts';

const silent = () => {};

/** Ports of a driver whose provider is a fake on virtual time. */
export function fakePorts(clock: VirtualClock, fetch: Fetch, env: NodeJS.ProcessEnv = {}): DriverPorts {
  const log = { debug: silent, info: silent, warn: silent, error: silent };
  return { env, clock, fetch, random: () => 0.5, stateDir: '/nonexistent', log };
}
