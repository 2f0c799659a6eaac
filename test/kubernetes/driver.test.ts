import { CoreV1Api } from '@kubernetes/client-node';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { isAlive } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { tearDown } from '../support/road.ts';
import { api, config, giveGpus, isOurs, nameOf, podsOf, SLOW } from './cluster.ts';
import { endFleets, PodFleet } from './fleet.ts';

/** What becomes of pods, whoever's doing it is, as the scheduler of a fleet outside the cluster sees it. */
afterEach(endFleets);
afterAll(tearDown);

const ONE_KEPT = { min: 1, max: 1 };
const isReady = ({ state }: { state: string }) => state === 'ready';

describe('pods of a fleet', () => {
  it('come with work, up to as many as may be, and go without', async () => {
    const fleet = await PodFleet.start({ pool: { max: 2 } });
    const ids = await fleet.submit(12, 100);
    await until(async () => (await fleet.launches()).filter(isReady).length === 2, 'two are ready', SLOW);
    await fleet.untilDone(ids);
    await fleet.untilEmpty();
    expect(fleet.census.mostAtOnce).toBe(2);
    expect((await fleet.launches()).filter(({ state }) => state === 'failed')).toEqual([]);
  });

  it('wait for the place of one that takes its time to end', async () => {
    const sleep = { exec: { command: ['sleep', '20'] } };
    const fleet = await PodFleet.start({
      pool: { max: 1 },
      pod: {
        terminationGracePeriodSeconds: 40,
        containers: [{ name: 'worker', lifecycle: { preStop: sleep } }],
      },
    });
    const first = await fleet.submit(2);
    await fleet.untilDone(first);
    await fleet.untilLaunch('told to end', ({ state }) => state === 'terminating');
    await until(
      async () => (await podsOf(fleet.namespace))[0]?.metadata?.deletionTimestamp,
      'its pod ends',
      SLOW,
    );
    await fleet.untilDone(await fleet.submit(2));
    await fleet.untilEmpty();
    expect(fleet.census.mostAtOnce).toBe(1);
    expect(await fleet.launches()).toHaveLength(2);
  });

  it('are replaced when somebody deletes one', async () => {
    const fleet = await PodFleet.start({ pool: ONE_KEPT });
    const { name } = await fleet.untilLaunch('ready', isReady);
    await api.deleteNamespacedPod({ name, namespace: fleet.namespace });
    await fleet.untilLaunch('ready in its place', (launch) => isReady(launch) && launch.name !== name);
    expect((await podsOf(fleet.namespace)).map(nameOf)).not.toContain(name);
    expect(fleet.census.mostAtOnce).toBe(1);
  });

  it('are replaced when one is evicted, as by `kubectl drain`', async () => {
    const fleet = await PodFleet.start({ pool: ONE_KEPT });
    const { name } = await fleet.untilLaunch('ready', isReady);
    const { namespace } = fleet;
    const apiVersion = isOurs ? 'policy/v1beta1' : 'policy/v1';
    await api.createNamespacedPodEviction({ name, namespace, body: { apiVersion, metadata: { name } } });
    await fleet.untilLaunch('ready in its place', (launch) => isReady(launch) && launch.name !== name);
    expect(fleet.census.mostAtOnce).toBe(1);
  });

  it('are replaced when a node ends one', async () => {
    const fleet = await PodFleet.start({ pool: ONE_KEPT, pod: { activeDeadlineSeconds: 45 } });
    const { name } = await fleet.untilLaunch('ready', isReady);
    fleet.write({ pool: ONE_KEPT });
    const ended = await fleet.untilLaunch('gone', (launch) => launch.name === name && !isAlive(launch));
    expect(ended).toMatchObject({
      state: 'failed',
      cause: 'exited',
      detail: expect.stringMatching(/^DeadlineExceeded/),
    });
    await fleet.untilLaunch('ready in its place', (launch) => isReady(launch) && launch.name !== name);
    expect(fleet.census.mostAtOnce).toBe(1);
  });

  it('are told of as failed when an image cannot be pulled, or the worker ends with 9', async () => {
    const image = 'registry.invalid/worker:1';
    const fleet = await PodFleet.start({ pool: { ...ONE_KEPT, image } });
    const unpulled = await fleet.untilLaunch('given up', ({ state }) => state === 'failed');
    expect(unpulled).toMatchObject({ cause: 'exited', detail: expect.stringContaining('ImagePullBackOff') });

    const bad = { containers: [{ name: 'worker', command: ['sh', '-c', 'exit 9'] }] };
    fleet.write({ pool: ONE_KEPT, pod: bad });
    const ended = await fleet.untilLaunch(
      'ended',
      ({ exit_code, state }) => exit_code === 9 && state === 'failed',
    );
    expect(ended).toMatchObject({ cause: 'exited' });
    await until(async () => (await podsOf(fleet.namespace)).length === 0, 'no pod is left', SLOW);
    expect(fleet.census.mostAtOnce).toBe(1);
  });

  it('are as many as the quota of the namespace allows', async () => {
    const fleet = await PodFleet.start();
    const { namespace } = fleet;
    await api.createNamespacedResourceQuota({
      namespace,
      body: { metadata: { name: 'one' }, spec: { hard: { pods: '1' } } },
    });
    await until(
      async () =>
        (await api.readNamespacedResourceQuota({ name: 'one', namespace })).status?.hard?.pods === '1',
      'the quota counts',
      SLOW,
    );
    fleet.write({ pool: { min: 2, max: 2 } });
    const refused = await fleet.untilLaunch('refused', ({ cause }) => cause === 'no_capacity');
    expect(refused.detail).toContain('exceeded quota');
    await fleet.untilLaunch('ready', isReady);
    expect(fleet.census.mostAtOnce).toBe(1);
  });

  it.runIf(isOurs)('wait for a GPU, and run on when it is taken from the node', async () => {
    await giveGpus(null);
    const gpu = { machines: [{ provider: 'pods', gpus: 1 }] };
    const fleet = await PodFleet.start({ pool: { ...gpu, ...ONE_KEPT } });
    const waiting = await fleet.untilLaunch('unschedulable', ({ detail }) =>
      /^Unschedulable/.test(detail ?? ''),
    );
    expect(waiting).toMatchObject({ state: 'accepted', detail: expect.stringContaining('nvidia.com/gpu') });
    await giveGpus(1);
    const first = await fleet.untilLaunch('ready', isReady);
    await giveGpus(null);
    fleet.write({ pool: { ...gpu, min: 2, max: 2 } });
    await fleet.untilLaunch('unschedulable', ({ id, detail }) => {
      return id !== first.id && /^Unschedulable/.test(detail ?? '');
    });
    await fleet.untilDone(await fleet.submit(2));
    expect((await fleet.launches()).find(({ id }) => id === first.id)?.state).toBe('ready');
    // A pod that no node has is gone with its delete.
    fleet.write({ pool: { ...gpu, min: 0, max: 2 } });
    await fleet.untilEmpty();
  });

  it('of which more than a page were forgotten are all found and ended', async () => {
    const fleet = await PodFleet.start({ pool: ONE_KEPT });
    const { namespace } = fleet;
    const { name } = await fleet.untilLaunch('ready', isReady);
    const [pod] = await podsOf(namespace);
    const prefix = name.slice(0, name.lastIndexOf('-'));
    // No node has so much.
    const resources = { requests: { cpu: '1000' } };
    const spec = {
      ...pod!.spec!,
      nodeName: undefined,
      containers: pod!.spec!.containers.map((one) => ({ ...one, resources })),
    };
    const { labels } = pod!.metadata!;
    const create = config.makeApiClient(CoreV1Api);
    for (let index = 0; index < 520; index += 20) {
      const batch = Array.from(
        { length: 20 },
        (_, at) => `${prefix}-${String(index + at).padStart(10, '0')}`,
      );
      await Promise.all(
        batch.map((each) =>
          create.createNamespacedPod({
            namespace,
            body: { metadata: { name: each, labels: labels! }, spec: spec as never },
          }),
        ),
      );
    }
    await until(
      async () => (await podsOf(namespace)).map(nameOf).join() === name,
      'only the one that is wanted is left',
      { ...SLOW, timeoutMs: 280_000 },
    );
    expect((await fleet.launches()).filter(isAlive)).toMatchObject([{ name, state: 'ready' }]);
  }, 400_000);
});
