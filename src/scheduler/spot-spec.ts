import { fieldsOf } from '../protocol/index.ts';
import { DRIVERS, type DriverName } from './drivers.ts';

interface Fault {
  /** Within the pool. */
  path: PropertyKey[];
  message: string;
}

/**
 * Returns the faults of what a pool's part of the spec says of spot machines, as far as no field shows them by itself.
 * Both values may be anything: their own faults are reported beside these.
 */
export function spotFaults(
  { machines, spot }: Record<string, unknown>,
  providers: Record<string, unknown>,
): Fault[] {
  const candidates = (Array.isArray(machines) ? machines : []).map((machine) => fieldsOf(machine));
  const faults: Fault[] = [];
  for (const [index, candidate] of candidates.entries()) {
    const message = candidate.spot === true ? faultOf(candidate, providers) : null;
    if (message !== null) faults.push({ path: ['machines', index, 'spot'], message });
  }
  if (spot === undefined) return faults;
  if (!candidates.some((one) => one.spot === true)) {
    const message = 'none of its machines is a spot machine: one needs `spot: true`';
    faults.push({ path: ['spot'], message });
  }
  const { base } = fieldsOf(spot);
  if (typeof base === 'number' && base > 0 && candidates.every((one) => one.spot === true)) {
    const message = 'all of its machines are spot machines: the base needs one that is not';
    faults.push({ path: ['spot', 'base'], message });
  }
  return faults;
}

/** Returns why a machine cannot be a spot machine, or null. */
function faultOf(
  { provider, price_per_hour }: Record<string, unknown>,
  providers: Record<string, unknown>,
): string | null {
  const name = String(provider);
  const { driver, spot_pod } = fieldsOf(providers[name]);
  if (typeof driver !== 'string' || !(driver in DRIVERS)) return null;
  if (!DRIVERS[driver as DriverName].hasSpot) {
    const others = Object.entries(DRIVERS).flatMap(([other, { hasSpot }]) => (hasSpot ? other : []));
    return `the driver ${driver} of provider ${name} launches no spot machines, only ${others.join(', ')} do`;
  }
  if (driver === 'kubernetes' && spot_pod === undefined) {
    return `provider ${name} does not say which of its nodes are spot nodes: give it spot_pod with the nodeSelector and the tolerations of these (docs/providers.md#spot-machines)`;
  }
  if (price_per_hour !== undefined) return null;
  return 'a spot machine needs price_per_hour: the most that it may cost, or that is bid for it';
}
