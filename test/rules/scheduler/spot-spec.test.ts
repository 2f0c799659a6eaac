import { describe, expect, it } from 'vitest';
import { FleetSpec } from '../../../src/scheduler/spec.ts';

const SPOT_POD = { nodeSelector: { 'cloud.google.com/gke-spot': 'true' } };

/** The faults of a fleet whose pool may run on these machines, a line each. */
function faultsOf(machines: object[], pool: object = {}): string[] {
  const spec = FleetSpec.safeParse({
    providers: {
      here: { driver: 'process' },
      pods: { driver: 'runpod' },
      market: { driver: 'vast' },
      clouds: { driver: 'dstack', url: 'http://dstack' },
      cluster: { driver: 'kubernetes' },
      gke: { driver: 'kubernetes', spot_pod: SPOT_POD },
    },
    pools: { chat: { model: 'tiny', machines, ...pool } },
  });
  return spec.error?.issues.map(({ path, message }) => `${path.slice(2).join('.')}: ${message}`) ?? [];
}

const spotAt = (provider: string, more: object = { price_per_hour: 0.4 }) => [
  { provider, spot: true, ...more },
];

describe('spot machines in the file of a fleet', () => {
  it('are those of drivers that have them', () => {
    for (const provider of ['market', 'clouds', 'gke']) expect(faultsOf(spotAt(provider))).toEqual([]);
    expect(faultsOf(spotAt('here'))).toEqual([
      'machines.0.spot: the driver process of provider here launches no spot machines, only kubernetes, vast, dstack do',
    ]);
    expect(faultsOf(spotAt('pods'))[0]).toMatch(/driver runpod of provider pods launches no spot machines/);
  });

  it('need a price, and on Kubernetes the labels of spot nodes', () => {
    expect(faultsOf(spotAt('market', {}))).toEqual([
      'machines.0.spot: a spot machine needs price_per_hour: the most that it may cost, or that is bid for it',
    ]);
    expect(faultsOf(spotAt('cluster'))[0]).toMatch(/provider cluster .* give it spot_pod/);
  });

  it('have a base only where there are both kinds', () => {
    const onDemand = { provider: 'market' };
    expect(faultsOf([onDemand], { spot: {} })).toEqual([
      'spot: none of its machines is a spot machine: one needs `spot: true`',
    ]);
    expect(faultsOf(spotAt('market'), { spot: { base: 1 } })).toEqual([
      'spot.base: all of its machines are spot machines: the base needs one that is not',
    ]);
    expect(faultsOf(spotAt('market'), { spot: { base: 0, back_after: '5m' } })).toEqual([]);
    expect(faultsOf([onDemand, ...spotAt('market')], { spot: { base: 2 } })).toEqual([]);
    expect(faultsOf([onDemand, ...spotAt('market')], { spot: { over: 1 } })[0]).toMatch(/over/);
  });
});
