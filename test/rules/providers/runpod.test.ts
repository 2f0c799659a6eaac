import { describe, expect, it } from 'vitest';
import type { Driver, LaunchRequest } from '../../../src/providers/driver.ts';
import { makeRunpod } from '../../../src/providers/runpod.ts';
import { ProviderSpec } from '../../../src/scheduler/provider-spec.ts';
import { letPass } from '../../support/driver-calls.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { fakePorts } from '../../support/driver-ports.ts';
import { FakeProvider } from '../../support/fakes/fake-provider.ts';
import { FakeRunpod } from '../../support/fakes/fake-runpod.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const INSTANCE_TYPE = 'NVIDIA GeForce RTX 4090';

function setUp(given: object = {}) {
  const clock = new VirtualClock();
  const provider = new FakeProvider(clock);
  provider.prices.set(INSTANCE_TYPE, 0.69);
  const runpod = new FakeRunpod(provider, clock, 'rp-key');
  const spec = ProviderSpec.parse({ driver: 'runpod', ...given }) as Extract<
    ProviderSpec,
    { driver: 'runpod' }
  >;
  const ports = fakePorts(clock, runpod.fetch, { RUNPOD_API_KEY: 'rp-key' });
  const driver = makeRunpod(spec, ports) as Driver;
  const launch = (more: Partial<LaunchRequest> = {}) =>
    letPass(clock, driver.launch({ ...REQUEST, ...more }));
  return { clock, provider, runpod, driver, launch, spec, ports };
}

const REQUEST: LaunchRequest = {
  name: 'wv-abc123-small-0000000001',
  may_exist: false,
  instance_type: INSTANCE_TYPE,
  gpus: 1,
  disk_gb: null,
  price_per_hour: null,
  image: null,
  env: { CASOLA_CONFIG_ID: 'small' },
};

driverContract('runpod', setUp, {
  instance_type: INSTANCE_TYPE,
  gpus: 1,
  tellsExitCodes: false,
  impossible: {
    created_but_error: 'an error of RunPod names no pod',
    end_takes_ms: 'a pod is gone with the answer',
  },
});

describe('the driver of RunPod', () => {
  it('asks for one GPU type, the image as it is, and a network volume where one is named', async () => {
    const { provider, launch } = setUp({
      network_volume: 'vol_1',
      data_centers: ['EU-RO-1'],
      registry: 'reg_1',
    });
    await launch({ gpus: 2, disk_gb: 40 });
    expect(provider.alive[0]!.request).toEqual({
      name: REQUEST.name,
      image: 'ghcr.io/worker-vllm/worker-vllm:latest',
      cloud: 'SECURE',
      gpu: { id: INSTANCE_TYPE, count: 2, minCudaVersion: '12.8' },
      registry: 'reg_1',
      disk: 40,
      env: REQUEST.env,
      dataCenterIds: ['EU-RO-1'],
      mounts: { network: [{ volumeId: 'vol_1', path: '/runpod-volume' }] },
    });
  });

  it('says which variable lacks the key', () => {
    const { spec, ports } = setUp();
    expect(() => makeRunpod({ ...spec, api_key_variable: 'OTHER_KEY' }, ports)).toThrow(
      /^OTHER_KEY is not set/,
    );
  });

  it('calls a wrong key and a wrong body rejected, a pool that is closed to it no capacity', async () => {
    const { runpod, launch, ports, spec } = setUp();
    const stranger = makeRunpod(spec, { ...ports, env: { RUNPOD_API_KEY: 'another' } }) as Driver;
    expect(await stranger.launch(REQUEST)).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('RUNPOD_API_KEY'),
    });
    expect(await launch({ disk_gb: 0 })).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('$.disk'),
    });
    runpod.forbidden.add(INSTANCE_TYPE);
    expect(await launch()).toMatchObject({ kind: 'no_capacity', detail: expect.stringContaining('403') });
  });

  it('takes no host whose driver is too old for the image', async () => {
    const { runpod, launch } = setUp({ min_cuda_version: '13.0' });
    expect(await launch()).toMatchObject({ kind: 'no_capacity' });
    runpod.hostCuda = '13.0';
    expect(await launch()).toMatchObject({ kind: 'launched' });
  });

  it('tells a request that breaks a rule from an instance type that is out of stock, which are both a 400', async () => {
    const { provider, runpod, launch } = setUp({ network_volume: 'vol_1' });
    runpod.volumesElsewhere.add('vol_1');
    expect(await launch()).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('network volume vol_1 is in another data center'),
    });
    runpod.volumesElsewhere.clear();
    provider.accidents.no_capacity = 1;
    expect(await launch()).toMatchObject({
      kind: 'no_capacity',
      detail: expect.stringContaining('no longer any instances'),
    });
  });

  it('takes no part of the pods for their list', async () => {
    const { clock, driver, runpod, launch } = setUp();
    for (const id of ['1', '2']) {
      await launch({ name: `wv-abc123-small-000000000${id}` });
      await clock.advance(1000);
    }
    runpod.pageSize = 1;
    await expect(letPass(clock, driver.list('wv-'))).rejects.toThrow(/hasNextPage/);
  });

  it('refuses more variables than RunPod takes, before it asks', async () => {
    const { provider, launch } = setUp();
    const env = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`V${index}`, 'x']));
    expect(await launch({ env })).toMatchObject({ kind: 'rejected', detail: expect.stringContaining('50') });
    expect(provider.machines).toEqual([]);
  });

  it('accepts no price above the limit, neither of the catalog nor of the pod', async () => {
    const { provider, launch, clock } = setUp();
    expect(await launch({ gpus: 2, price_per_hour: 0.7 })).toMatchObject({ kind: 'no_capacity' });
    expect(provider.machines).toEqual([]);
    expect(await launch({ price_per_hour: 0.7 })).toMatchObject({ kind: 'launched', price_per_hour: 0.69 });
    await clock.advance(1000);
    provider.prices.set(INSTANCE_TYPE, 0.9);
    const outcome = await launch({ name: 'wv-abc123-small-0000000002', price_per_hour: 0.7 });
    expect(outcome).toMatchObject({ kind: 'no_capacity', detail: expect.stringContaining('$0.9') });
    expect(provider.alive).toHaveLength(1);
  });

  it('does not ask for an instance type that the catalog has none of', async () => {
    const { provider, runpod, launch } = setUp();
    runpod.availability.set(INSTANCE_TYPE, 'NONE');
    expect(await launch()).toMatchObject({ kind: 'no_capacity', detail: expect.stringContaining('stock') });
    expect(provider.machines).toEqual([]);
  });

  it('tells prices of the catalog', async () => {
    const { driver, clock } = setUp();
    const prices = await letPass(clock, driver.prices!([INSTANCE_TYPE, 'no such GPU']));
    expect(prices).toEqual([{ instance_type: INSTANCE_TYPE, price_per_hour: 0.69 }]);
  });

  it('waits as long as a 429 says, and until a used-up window is over', async () => {
    const { clock, provider, driver, runpod } = setUp();
    for (const saysRetryAfter of [true, false]) {
      runpod.saysRetryAfter = saysRetryAfter;
      provider.accidents.throttled = 2;
      expect(await letPass(clock, driver.list('wv-'))).toEqual([]);
    }
    runpod.rateLimit = '"minute";r=0;t=12, "hour";r=2800;t=1812';
    await letPass(clock, driver.list('wv-'));
    runpod.rateLimit = null;
    const before = clock.now();
    await letPass(clock, driver.list('wv-'));
    expect(clock.now() - before).toBeGreaterThanOrEqual(12_000);
  });

  it('reads no more of an answer than any list is long', async () => {
    const { clock, spec, ports } = setUp();
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 1024 * 1024;
        // Were it read to its end, this would be it.
        if (sent > 256 * 1024 * 1024) controller.close();
        else controller.enqueue(new Uint8Array(1024 * 1024).fill(32));
      },
    });
    const driver = makeRunpod(spec, { ...ports, fetch: async () => new Response(endless) }) as Driver;
    await expect(letPass(clock, driver.list('wv-'))).rejects.toThrow(/longer than 33554432 bytes/);
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });

  it('takes an answer in another form for no list', async () => {
    const { clock, driver, runpod } = setUp();
    runpod.answersOddly = true;
    await expect(letPass(clock, driver.list('wv-'))).rejects.toThrow(/form that this version does not know/);
  });
});
