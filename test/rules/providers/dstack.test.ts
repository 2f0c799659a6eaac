import { describe, expect, it } from 'vitest';
import type { Driver, LaunchRequest } from '../../../src/providers/driver.ts';
import { makeDstack } from '../../../src/providers/dstack.ts';
import { ProviderSpec } from '../../../src/scheduler/provider-spec.ts';
import { letPass } from '../../support/driver-calls.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { fakePorts } from '../../support/driver-ports.ts';
import { FakeDstack } from '../../support/fakes/fake-dstack.ts';
import { FakeProvider } from '../../support/fakes/fake-provider.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function setUp(given: object = {}, token = 'dstack-token') {
  const clock = new VirtualClock();
  const provider = new FakeProvider(clock, { namesAreUnique: true });
  const dstack = new FakeDstack(provider, 'dstack-token');
  const spec = ProviderSpec.parse({ driver: 'dstack', url: 'http://dstack.example', ...given });
  const ports = fakePorts(clock, dstack.fetch, { DSTACK_TOKEN: token });
  const driver = makeDstack(spec as Extract<ProviderSpec, { driver: 'dstack' }>, ports) as Driver;
  const launch = (more: Partial<LaunchRequest> = {}) => {
    const request = { ...REQUEST, ...more };
    const env = { ...request.env, CASOLA_INSTANCE_ID: request.name };
    return letPass(clock, driver.launch({ ...request, env }));
  };
  return { clock, provider, dstack, driver, launch };
}

const REQUEST: LaunchRequest = {
  name: 'wv-abc123-small-0000000001',
  may_exist: false,
  instance_type: 'RTX4090',
  gpus: 1,
  disk_gb: null,
  price_per_hour: null,
  image: null,
  env: { CASOLA_CONFIG_ID: 'small' },
};

driverContract('dstack', setUp, {
  impossible: {
    created_but_error: 'dstack takes a run or it does not',
    no_money: 'the balance is that of a cloud behind dstack',
  },
});

describe('the driver of dstack', () => {
  it('shortens a name to what dstack takes, and lists it whole', async () => {
    const { clock, provider, driver, launch } = setUp();
    const name = `wv-abc1234567-${'a-long-name-'.repeat(2)}of-a-mode-0000000001`;
    expect(await launch({ name })).toMatchObject({ kind: 'launched' });
    expect(provider.alive[0]!.request).toMatchObject({ run_name: 'wv-abc1234567-0000000001' });
    expect(await letPass(clock, driver.list('wv-abc1234567-'))).toMatchObject([{ name }]);
    const end = () => letPass(clock, driver.terminate({ name, external_id: null }));
    expect(await end()).toEqual({ kind: 'terminating' });
    await clock.advance(2000);
    expect(await end()).toEqual({ kind: 'terminated' });
    expect(provider.alive).toEqual([]);
  });

  it('takes the run that another launcher submitted at the same time', async () => {
    const { provider, launch } = setUp();
    const outcomes = await Promise.all([launch(), launch({ may_exist: true })]);
    expect(outcomes).toMatchObject([{ kind: 'launched' }, { kind: 'launched' }]);
    expect(provider.alive).toHaveLength(1);
  });

  it('tells of a run that no machine was found for', async () => {
    const { clock, driver, dstack, launch } = setUp();
    dstack.findsNoMachine = true;
    await launch();
    expect(await letPass(clock, driver.list('wv-'))).toMatchObject([
      { state: 'ended', no_capacity: true, exit_code: null, detail: expect.stringContaining('No offers') },
    ]);
  });

  it('tells of a run whose machine was taken back', async () => {
    const { clock, provider, driver, dstack, launch } = setUp();
    await launch();
    dstack.endReason = 'interrupted_by_no_capacity';
    provider.end(provider.alive[0]!, 137);
    expect(await letPass(clock, driver.list('wv-'))).toMatchObject([
      { state: 'ended', no_capacity: true, preempted: true },
    ]);
  });

  it('asks for a spot machine, within its price, or for none', async () => {
    const { provider, launch } = setUp();
    await launch({ spot: true, price_per_hour: 0.5 });
    await launch({ name: 'wv-abc123-small-0000000002' });
    expect(provider.alive.map(({ request }) => request)).toMatchObject([
      { configuration: { spot_policy: 'spot', max_price: 0.5 } },
      { configuration: { spot_policy: 'on-demand' } },
    ]);
  });

  it('says what dstack refuses: a token, a project', async () => {
    expect(await setUp({}, 'another').launch()).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('DSTACK_TOKEN'),
    });
    expect(await setUp({ project: 'other' }).launch()).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('project other'),
    });
    expect(() => setUp({}, '')).toThrow(/^DSTACK_TOKEN is not set/);
  });

  it('says that a run is terminated when it has ended, not when it was told to', async () => {
    const { clock, provider, dstack, driver, launch } = setUp();
    dstack.endsAfterMs = 70_000;
    await launch();
    const end = () => letPass(clock, driver.terminate({ name: REQUEST.name, external_id: null }));
    for (let n = 0; n < 6; n++) {
      expect(await end()).toEqual({ kind: 'terminating' });
      expect(provider.alive).toHaveLength(1);
      await clock.advance(10_000);
    }
    await clock.advance(20_000);
    expect(await end()).toEqual({ kind: 'terminated' });
    expect(await letPass(clock, driver.list('wv-'))).toEqual([]);
  });

  it('has a run ended within the grace of its pool', async () => {
    const stopOf = async (env: Record<string, string>) => {
      const { provider, launch } = setUp();
      await launch({ env });
      return (provider.alive[0]!.request as { configuration: object }).configuration;
    };
    expect(await stopOf({})).toMatchObject({ stop_duration: 75 });
    expect(await stopOf({ CASOLA_SHUTDOWN_GRACE_PERIOD: '300' })).toMatchObject({ stop_duration: 315 });
  });

  it('asks for the GPUs, the disk and the price that are wanted', async () => {
    const { provider, launch } = setUp();
    await launch({ gpus: 2, disk_gb: 100, price_per_hour: 1.5 });
    expect(provider.alive[0]!.request).toMatchObject({
      configuration: { resources: { gpu: 'RTX4090:2', disk: '100GB..' }, max_price: 1.5 },
    });
  });
});
