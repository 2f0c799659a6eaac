import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { isAlive } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { tearDown } from '../support/road.ts';
import { ApiProxy } from './api-proxy.ts';
import { cluster, containersOf, isOurs, podsOf, SLOW } from './cluster.ts';
import { endFleets, PodFleet } from './fleet.ts';

/** What launches pods, and what runs them, is killed. */
const proxies: ApiProxy[] = [];
afterEach(async () => {
  if (isOurs) cluster('start', 'kubelet');
  for (const proxy of proxies.splice(0)) proxy.close();
  await endFleets();
});
afterAll(tearDown);

async function fleetThroughProxy(creates: ApiProxy['creates']) {
  const proxy = new ApiProxy();
  proxies.push(proxy);
  proxy.creates = creates;
  const env = { KUBECONFIG: await proxy.listen() };
  // Others may be launched beside it: the scheduler is not to want to.
  const fleet = await PodFleet.start({ pool: { max: 3 }, env });
  const ids = await fleet.submit(2, 100);
  await until(() => proxy.caught > 0, 'a create is under way', SLOW);
  await fleet.kill();
  proxy.creates = 'pass';
  await fleet.launch(env);
  return { proxy, fleet, ids };
}

describe('a launcher that is killed in a create', () => {
  it('before it reached the API server: one pod is made, and the late create makes no other', async () => {
    const { proxy, fleet, ids } = await fleetThroughProxy('hold');
    await until(async () => (await podsOf(fleet.namespace)).length > 0, 'the pod is made', SLOW);
    proxy.release();
    await fleet.untilDone(ids);
    await fleet.untilEmpty();
    expect(fleet.census.mostAtOnce).toBe(1);
    expect(await fleet.launches()).toHaveLength(1);
  });

  it('before its answer: the pod that it made is found', async () => {
    const { fleet, ids } = await fleetThroughProxy('keep the answer');
    await fleet.untilDone(ids);
    await fleet.untilEmpty();
    expect(fleet.census.mostAtOnce).toBe(1);
    expect(await fleet.launches()).toHaveLength(1);
  });
});

describe.runIf(isOurs)('a node that is lost for a minute', () => {
  it('has its pod for as long, and no other takes its place', async () => {
    const fleet = await PodFleet.start({ pool: { min: 1, max: 1 } });
    const { name } = await fleet.untilLaunch('ready', ({ state }) => state === 'ready');
    cluster('stop', 'kubelet');
    fleet.write({ pool: { max: 1 } });
    // Its grace of 16 s is over for half a minute.
    const lost = await fleet.untilLaunch('known to be late', ({ detail }) =>
      /its node has not said/.test(detail ?? ''),
    );
    expect(lost).toMatchObject({ name, state: 'terminating' });
    expect(containersOf(name)).toHaveLength(1);
    const ids = await fleet.submit(2);
    await until(
      async () => (await fleet.poolText()).includes('Places are free once 1 worker that ends is gone'),
      'the scheduler says why nothing is launched',
      SLOW,
    );
    expect(await fleet.launches()).toMatchObject([{ name, state: 'terminating' }]);
    cluster('start', 'kubelet');
    await fleet.untilDone(ids);
    await fleet.untilEmpty();
    expect(containersOf(name)).toEqual([]);
    expect(fleet.census.mostAtOnce).toBe(1);
    expect((await fleet.launches()).filter(isAlive)).toEqual([]);
  });
});
