import type { ProviderSpec } from '../scheduler/provider-spec.ts';
import type { Driver, DriverPorts, MakeDriver } from './driver.ts';

type Kind = ProviderSpec['driver'];

/** Loads each driver when a provider of the spec needs it. */
const DRIVERS: { [K in Kind]: () => Promise<MakeDriver<K>> } = {
  process: async () => {
    const { ProcessDriver } = await import('./process/driver.ts');
    return (spec, ports) => new ProcessDriver(spec, ports);
  },
  docker: async () => {
    const { DockerDriver } = await import('./docker/driver.ts');
    return (spec, ports) => new DockerDriver(spec, ports);
  },
  kubernetes: async () => (await import('./kubernetes/kubernetes.ts')).makeKubernetes,
  runpod: async () => (await import('./runpod.ts')).makeRunpod,
  dstack: async () => (await import('./dstack.ts')).makeDstack,
  vast: async () => (await import('./vast/vast.ts')).makeVast,
};

/** The names of all drivers. */
export const DRIVER_NAMES = Object.keys(DRIVERS) as Kind[];

/** Makes the driver of a provider. @throws UserError when the driver cannot work here */
export async function makeDriver(spec: ProviderSpec, ports: DriverPorts): Promise<Driver> {
  const load = DRIVERS[spec.driver] as () => Promise<MakeDriver>;
  return await (await load())(spec, ports);
}
