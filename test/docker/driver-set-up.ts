import { DockerDriver } from '../../src/providers/docker/driver.ts';
import type { DriverPorts, LaunchRequest } from '../../src/providers/driver.ts';
import { IMAGES } from './images.ts';

/** @param speed how much faster than ours the driver's clock runs */
function portsOf(speed = 1): DriverPorts {
  const log = () => {};
  return {
    env: process.env,
    clock: {
      now: () => Date.now() * speed,
      setTimeout: (run, ms) => setTimeout(run, ms / speed),
      clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
    },
    fetch,
    random: Math.random,
    stateDir: '/nonexistent',
    log: { debug: log, info: log, warn: log, error: log },
  };
}

export function driverOf(spec: { host?: string; volumes?: string[] } = {}, speed = 1): DockerDriver {
  return new DockerDriver({ driver: 'docker', volumes: [], ...spec }, portsOf(speed));
}

export function requestOf(name: string, more: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    name,
    may_exist: false,
    instance_type: 'local',
    gpus: 0,
    disk_gb: null,
    price_per_hour: null,
    image: IMAGES.sleeper,
    env: { CASOLA_INSTANCE_ID: name },
    ...more,
  };
}
