import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { Driver, LaunchRequest } from '../../../src/providers/driver.ts';
import { FakeKubernetes } from '../../../src/providers/fakes/fake-kubernetes.ts';
import { FakeProvider } from '../../../src/providers/fakes/fake-provider.ts';
import { makeKubernetes } from '../../../src/providers/kubernetes/kubernetes.ts';
import { podOf } from '../../../src/providers/kubernetes/pod.ts';
import { ProviderSpec } from '../../../src/scheduler/spec.ts';
import { letPass } from '../../support/driver-calls.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { fakePorts } from '../../support/driver-ports.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const folder = mkdtempSync(join(tmpdir(), 'kubeconfig-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const open: FakeKubernetes[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

const REQUEST: LaunchRequest = {
  name: 'wv-abc123-small-0000000001',
  may_exist: false,
  kind: 'local',
  gpus: 1,
  disk_gb: null,
  price_per_hour: null,
  image: null,
  env: { CASOLA_CONFIG_ID: 'small' },
};

async function setUp(given: object = {}) {
  const clock = new VirtualClock();
  const provider = new FakeProvider(clock, { namesAreUnique: true });
  const kubernetes = new FakeKubernetes(provider, { namespace: 'models', token: 'kube-token' });
  open.push(kubernetes);
  const KUBECONFIG = join(folder, `config-${Math.random()}`);
  writeFileSync(KUBECONFIG, JSON.stringify(kubeconfigOf(await kubernetes.listen())));
  const spec = ProviderSpec.parse({ driver: 'kubernetes', namespace: 'models', ...given });
  const ports = fakePorts(clock, fetch, { KUBECONFIG });
  const make = () => makeKubernetes(spec as Extract<ProviderSpec, { driver: 'kubernetes' }>, ports) as Driver;
  return { clock, provider, kubernetes, make, spec, ports };
}

function kubeconfigOf(server: string) {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'here',
    // The client refuses plain HTTP otherwise.
    clusters: [{ name: 'fake', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [
      { name: 'launcher', user: { token: 'kube-token' } },
      { name: 'stranger', user: { token: 'another' } },
    ],
    contexts: [
      { name: 'here', context: { cluster: 'fake', user: 'launcher', namespace: 'models' } },
      { name: 'stranger', context: { cluster: 'fake', user: 'stranger' } },
    ],
  };
}

driverContract(
  'kubernetes',
  async () => {
    const { make, ...rest } = await setUp();
    return { driver: make(), ...rest };
  },
  {
    impossible: {
      created_but_error: 'what the API server refuses it has not made',
      no_money: 'nobody is billed',
    },
  },
);

describe('the driver of Kubernetes', () => {
  it('tells of a pod that no node can take, at the end of the time a node autoscaler needs', async () => {
    const { clock, provider, kubernetes, make } = await setUp();
    provider.accidents.stuck_loading = true;
    kubernetes.unschedulable = '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.';
    const driver = make();
    await driver.launch(REQUEST);
    const list = () => letPass(clock, driver.list('wv-'));
    await clock.advance(14 * 60_000);
    expect(await list()).toMatchObject([
      { state: 'starting', detail: expect.stringContaining('Insufficient') },
    ]);
    await clock.advance(2 * 60_000);
    expect(await list()).toMatchObject([
      { state: 'ended', no_capacity: true, detail: expect.stringContaining('Insufficient') },
    ]);
  });

  it.each(['ImagePullBackOff', 'CreateContainerConfigError'])(
    'gives up a container in %s',
    async (reason) => {
      const { clock, provider, kubernetes, make } = await setUp();
      provider.accidents.stuck_loading = true;
      kubernetes.waiting = { reason, message: 'it cannot be' };
      const driver = make();
      await driver.launch(REQUEST);
      expect(await letPass(clock, driver.list('wv-'))).toMatchObject([
        { state: 'ended', exit_code: null, detail: `${reason}: it cannot be` },
      ]);
    },
  );

  it('tells that the worker has ended where a container beside it goes on', async () => {
    const { clock, provider, make } = await setUp({ pod: { containers: [{ name: 'proxy', image: 'p' }] } });
    const driver = make();
    await driver.launch(REQUEST);
    provider.end(provider.alive[0]!, 9, 'no such model');
    expect(await letPass(clock, driver.list('wv-'))).toMatchObject([
      { state: 'ended', exit_code: 9, detail: 'Error: no such model' },
    ]);
  });

  it('does not end another pod of the same name', async () => {
    const { provider, make } = await setUp();
    const driver = make();
    await driver.launch(REQUEST);
    const outcome = await driver.terminate({ name: REQUEST.name, external_id: 'uid-of-one-before' });
    expect(outcome).toEqual({ kind: 'terminated' });
    expect(provider.alive).toHaveLength(1);
  });

  it('says what it lacks: a namespace, a token, a context', async () => {
    const { make } = await setUp({ namespace: 'no-such' });
    expect(await make().launch(REQUEST)).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('namespaces "no-such" not found'),
    });
    const { make: makeStranger } = await setUp({ context: 'stranger' });
    expect(await makeStranger().launch(REQUEST)).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('401'),
    });
    const { make: makeLost } = await setUp({ context: 'nowhere' });
    expect(makeLost).toThrow('no context "nowhere", only here, stranger');
  });

  it('puts what the spec says of pods into its own', () => {
    const pod = podOf(
      { ...REQUEST, kind: 'NVIDIA-L4', gpus: 2 },
      {
        nodeSelector: { pool: 'gpu' },
        tolerations: [{ key: 'spot', operator: 'Exists' }],
        volumes: [{ name: 'home', persistentVolumeClaim: { claimName: 'models' } }],
        containers: [{ name: 'worker', resources: { requests: { memory: '16Gi' } } }],
      },
    );
    expect(pod.spec).toMatchObject({
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 75,
      nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-L4', pool: 'gpu' },
      tolerations: [{ key: 'nvidia.com/gpu' }, { key: 'spot' }],
      containers: [{ resources: { limits: { 'nvidia.com/gpu': '2' }, requests: { memory: '16Gi' } } }],
    });
    expect(pod.spec!.volumes).toEqual([
      { name: 'home', persistentVolumeClaim: { claimName: 'models' } },
      { name: 'tmp', emptyDir: {} },
      { name: 'shm', emptyDir: { medium: 'Memory' } },
    ]);
    expect(pod.spec!.containers).toHaveLength(1);
  });
});
