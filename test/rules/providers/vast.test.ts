import { describe, expect, it } from 'vitest';
import type { Driver, LaunchRequest } from '../../../src/providers/driver.ts';
import { makeVast } from '../../../src/providers/vast/vast.ts';
import { ProviderSpec } from '../../../src/scheduler/provider-spec.ts';
import { letPass } from '../../support/driver-calls.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { fakePorts } from '../../support/driver-ports.ts';
import { FakeProvider } from '../../support/fakes/fake-provider.ts';
import { FakeVast } from '../../support/fakes/fake-vast.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const INSTANCE_TYPE = 'RTX 4090';

function setUp(given: object = {}) {
  const clock = new VirtualClock();
  const provider = new FakeProvider(clock);
  provider.prices.set(INSTANCE_TYPE, 0.4).set('RTX 5090', 0.7);
  const vast = new FakeVast(provider, clock, 'vast-key');
  const spec = ProviderSpec.parse({ driver: 'vast', ...given }) as Extract<ProviderSpec, { driver: 'vast' }>;
  const ports = fakePorts(clock, vast.fetch, { VAST_API_KEY: 'vast-key' });
  const driver = makeVast(spec, ports) as Driver;
  const launch = (id: string, more: Partial<LaunchRequest> = {}) =>
    letPass(clock, driver.launch({ ...REQUEST, name: nameOf(id), ...more }));
  return { clock, provider, vast, driver, launch, spec, ports };
}

const nameOf = (id: string) => `wv-abc123-small-${id.padStart(10, '0')}`;
const REQUEST: LaunchRequest = {
  name: nameOf('1'),
  may_exist: false,
  instance_type: INSTANCE_TYPE,
  gpus: 1,
  disk_gb: null,
  price_per_hour: null,
  image: null,
  env: { CASOLA_CONFIG_ID: 'small' },
};

driverContract('vast', setUp, {
  instance_type: INSTANCE_TYPE,
  gpus: 1,
  tellsExitCodes: false,
  impossible: { end_takes_ms: 'an instance is gone with the answer' },
});

describe('the driver of Vast', () => {
  it('takes the next offer when somebody else was faster, and the cheapest first', async () => {
    const { provider, vast, launch } = setUp();
    vast.taken = 2;
    expect(await launch('1')).toMatchObject({ kind: 'launched', price_per_hour: 0.4 * 1.002 });
    expect(provider.alive).toHaveLength(1);
  });

  it('keeps the least interval of each kind of request', async () => {
    const { vast, launch, provider } = setUp();
    await Promise.all(['1', '2', '3', '4', '5'].map((id) => launch(id)));
    expect(provider.alive).toHaveLength(5);
    expect(vast.refused).toBe(0);
  });

  it('uses the offers found last when the searches of the day are used up', async () => {
    const { clock, vast, launch } = setUp();
    await launch('1');
    vast.searchesLeft = 0;
    await clock.advance(3600_000);
    expect(await launch('2')).toMatchObject({ kind: 'launched' });
    vast.searchesLeft = Number.POSITIVE_INFINITY;
    await clock.advance(24 * 3600_000);
    expect(await launch('3', { instance_type: 'RTX 5090' })).toMatchObject({ kind: 'launched' });
  });

  it('says that there is no capacity when it may not search and knows no offer', async () => {
    const { vast, launch } = setUp();
    vast.searchesLeft = 0;
    expect(await launch('1')).toMatchObject({
      kind: 'no_capacity',
      detail: expect.stringContaining('midnight UTC'),
    });
  });

  it('does not look for offers above the price', async () => {
    const { provider, launch } = setUp();
    expect(await launch('1', { price_per_hour: 0.39 })).toMatchObject({ kind: 'no_capacity' });
    expect(provider.machines).toEqual([]);
  });

  it('bids a little more than the least bid, and no more than the price', async () => {
    const { provider, launch } = setUp();
    // The least bids are 0.18 to 0.2.
    expect(await launch('1', { spot: true, price_per_hour: 0.3 })).toMatchObject({
      kind: 'launched',
      price_per_hour: 0.1982,
    });
    expect(await launch('2', { spot: true, price_per_hour: 0.181 })).toMatchObject({ price_per_hour: 0.181 });
    expect(provider.alive.map(({ request }) => (request as { bid: number }).bid)).toEqual([0.1982, 0.181]);
    expect(await launch('3', { spot: true, price_per_hour: 0.1 })).toMatchObject({
      kind: 'no_capacity',
      detail: expect.stringContaining('1 × interruptible RTX 4090 up to $0.1 an hour'),
    });
    expect(await launch('4', { price_per_hour: 0.39 })).toMatchObject({ kind: 'no_capacity' });
  });

  it('tells of an instance that was outbid', async () => {
    const { clock, provider, driver, launch } = setUp();
    await launch('1', { spot: true, price_per_hour: 0.3 });
    await launch('2');
    for (const machine of provider.alive) machine.isStopped = true;
    const list = await letPass(clock, driver.list('wv-'));
    expect(list).toMatchObject([{ state: 'ended', preempted: true }, { state: 'ended' }]);
    expect(list[1]).not.toHaveProperty('preempted');
  });

  it('goes to another machine after one that did not start', async () => {
    const { clock, provider, driver, launch } = setUp();
    provider.accidents.stuck_loading = true;
    const first = await launch('1');
    await clock.advance(900_000);
    const [machine] = await letPass(clock, driver.list('wv-abc123-'));
    await letPass(clock, driver.terminate({ name: nameOf('1'), external_id: machine!.external_id }));
    provider.accidents.stuck_loading = false;
    const second = await launch('2');
    expect(first).toMatchObject({ kind: 'launched', price_per_hour: 0.4 });
    expect(second).toMatchObject({ kind: 'launched', price_per_hour: 0.4 * 1.001 });
  });

  it('gives up an instance that is frozen, which is billed, and waits for one that reboots', async () => {
    const { clock, driver, vast, launch } = setUp();
    await launch('1');
    for (const [actualStatus, state] of [
      ['rebooting', 'starting'],
      ['frozen', 'ended'],
      ['offline', 'unknown'],
    ] as const) {
      vast.actualStatus = actualStatus;
      const detail = state === 'starting' ? null : `Vast says ${actualStatus}`;
      expect(await letPass(clock, driver.list('wv-'))).toMatchObject([{ state, detail }]);
    }
  });

  it('says which filters Vast refuses', async () => {
    const { launch } = setUp({ search: { gpu_name: 'not a filter', num_gpus: 'nor this' } });
    expect(await launch('1', { gpus: 1 })).toMatchObject({ kind: 'launched' });
    const { launch: launchOther } = setUp({ search: { geolocation: 'SE' } });
    expect(await launchOther('1')).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('geolocation'),
    });
  });

  it('says which variable lacks the key', () => {
    const { spec, ports } = setUp();
    expect(() => makeVast({ ...spec, api_key_variable: 'OTHER_KEY' }, ports)).toThrow(
      /^OTHER_KEY is not set/,
    );
  });
});
