import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { Driver, LaunchRequest } from '../../../src/providers/driver.ts';
import { makeKubernetes } from '../../../src/providers/kubernetes/kubernetes.ts';
import { machineOf, PodShape, podOf } from '../../../src/providers/kubernetes/pod.ts';
import { ProviderSpec } from '../../../src/scheduler/provider-spec.ts';
import { idOf, letPass } from '../../support/driver-calls.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { fakePorts } from '../../support/driver-ports.ts';
import { FakeKubernetes } from '../../support/fakes/fake-kubernetes.ts';
import { FakeProvider } from '../../support/fakes/fake-provider.ts';
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
  instance_type: 'local',
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
      { state: 'ended', exit_code: 9, detail: 'Error\nno such model' },
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

  it('says that a pod is terminated when it is gone, not when its delete was accepted', async () => {
    const { clock, provider, kubernetes, make } = await setUp();
    kubernetes.endsAfterMs = 50_000;
    const driver = make();
    const external_id = idOf(await letPass(clock, driver.launch(REQUEST)));
    const end = () => letPass(clock, driver.terminate({ name: REQUEST.name, external_id }));
    for (let n = 0; n < 5; n++) {
      expect(await end()).toEqual({ kind: 'terminating' });
      expect(await letPass(clock, driver.list('wv-'))).toMatchObject([{ external_id, state: 'running' }]);
      await clock.advance(10_000);
    }
    expect(await end()).toEqual({ kind: 'terminated' });
    expect(provider.alive).toEqual([]);
  });

  it('never says so of a pod whose node is lost, and says why it is still there', async () => {
    const { clock, kubernetes, make } = await setUp();
    kubernetes.endsAfterMs = Number.POSITIVE_INFINITY;
    const driver = make();
    await driver.launch(REQUEST);
    const end = () => letPass(clock, driver.terminate({ name: REQUEST.name, external_id: null }));
    await end();
    await clock.advance(3600_000);
    expect(await end()).toEqual({ kind: 'terminating' });
    expect(await letPass(clock, driver.list('wv-'))).toMatchObject([
      { state: 'running', detail: expect.stringContaining('its node has not said') },
    ]);
  });

  it('ends at once what no node has', async () => {
    const { clock, provider, kubernetes, make } = await setUp();
    provider.accidents.stuck_loading = true;
    kubernetes.unschedulable = '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.';
    const driver = make();
    await driver.launch(REQUEST);
    const outcome = await letPass(clock, driver.terminate({ name: REQUEST.name, external_id: null }));
    expect(outcome).toEqual({ kind: 'terminated' });
  });

  it('takes no list for whole of which the API server has forgotten a page', async () => {
    const { clock, kubernetes, make } = await setUp();
    kubernetes.page = 1;
    const driver = make();
    for (const name of ['wv-a-1', 'wv-a-2', 'wv-a-3']) await driver.launch({ ...REQUEST, name });
    kubernetes.oldPages = 1;
    expect(await letPass(clock, driver.list('wv-'))).toHaveLength(3);
    kubernetes.oldPages = 10;
    await expect(letPass(clock, driver.list('wv-'))).rejects.toThrow('410');
  });

  it('gives a pod the grace of its pool to end', () => {
    const graceOf = (env: Record<string, string>, pod = {}) =>
      podOf({ ...REQUEST, env }, { pod }).spec!.terminationGracePeriodSeconds;
    expect(graceOf({})).toBe(75);
    expect(graceOf({ CASOLA_SHUTDOWN_GRACE_PERIOD: '300.5' })).toBe(316);
    expect(graceOf({ CASOLA_SHUTDOWN_GRACE_PERIOD: '5' })).toBe(20);
    expect(graceOf({}, { terminationGracePeriodSeconds: 600 })).toBe(600);
    const spot = podOf({ ...REQUEST, spot: true }).spec!.containers[0]!.env;
    expect(spot).toContainEqual({ name: 'CASOLA_SHUTDOWN_GRACE_PERIOD', value: '10' });
  });

  it('refuses a kubeconfig that no call could be made by', async () => {
    const { ports, spec } = await setUp();
    const made = (server: string, more = {}) => {
      const config = kubeconfigOf(server);
      const { name } = config.clusters[0]!;
      writeFileSync(
        ports.env.KUBECONFIG!,
        JSON.stringify({ ...config, clusters: [{ name, cluster: { server, ...more } }] }),
      );
      return () => makeKubernetes(spec as Extract<ProviderSpec, { driver: 'kubernetes' }>, ports);
    };
    expect(made('http://10.0.0.1:8080')).toThrow(
      'has the server http://10.0.0.1:8080: an address with https://',
    );
    expect(made('10.0.0.1:6443')).toThrow('https://');
    expect(made('http://10.0.0.1:8080', { 'insecure-skip-tls-verify': true })).not.toThrow();
    expect(made('https://10.0.0.1:6443')).not.toThrow();
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

  it('puts spot pods onto spot nodes, and other pods onto no spot node', () => {
    const toleration = { key: 'kubernetes.azure.com/scalesetpriority', value: 'spot', effect: 'NoSchedule' };
    const spot_pod = { nodeSelector: { 'cloud/spot': 'true' }, tolerations: [toleration] };
    const spot = podOf({ ...REQUEST, instance_type: 'NVIDIA-L4', spot: true }, { spot_pod });
    expect(spot.spec).toMatchObject({
      nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-L4', 'cloud/spot': 'true' },
      tolerations: [{ key: 'nvidia.com/gpu' }, toleration],
    });
    expect(spot.spec?.affinity).toBeUndefined();
    const zone = { matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }] };
    const required = { nodeSelectorTerms: [zone] };
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } };
    const other = podOf(REQUEST, { pod: { affinity }, spot_pod });
    const termsOf = ({ spec }: typeof other) =>
      spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
    const noSpot = { key: 'cloud/spot', operator: 'NotIn', values: ['true'] };
    expect(termsOf(other)).toEqual([{ matchExpressions: [...zone.matchExpressions, noSpot] }]);
    expect(termsOf(podOf(REQUEST, { spot_pod }))).toEqual([{ matchExpressions: [noSpot] }]);
    expect(other.spec?.tolerations).toEqual([
      { key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' },
    ]);
  });

  it('tells of a pod whose node was taken away', () => {
    const conditions = [{ type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet' }];
    const pod = (status: object) =>
      PodShape.parse({ metadata: { name: 'wv-a-1', uid: 'u' }, status: { phase: 'Failed', ...status } });
    expect(machineOf(pod({ conditions }), 0)).toMatchObject({ state: 'ended', preempted: true });
    expect(machineOf(pod({}), 0)).not.toHaveProperty('preempted');
    // It ran out of memory or disk there, and would on any other.
    expect(machineOf(pod({ conditions, reason: 'Evicted' }), 0)).not.toHaveProperty('preempted');
  });

  it('puts what the spec says of pods into its own', () => {
    const given = {
      nodeSelector: { pool: 'gpu' },
      tolerations: [{ key: 'spot', operator: 'Exists' }],
      volumes: [{ name: 'home', persistentVolumeClaim: { claimName: 'models' } }],
      containers: [{ name: 'worker', resources: { requests: { memory: '16Gi' } } }],
    };
    const pod = podOf({ ...REQUEST, instance_type: 'NVIDIA-L4', gpus: 2 }, { pod: given });
    expect(pod.spec).toMatchObject({
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 75,
      nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-L4', pool: 'gpu' },
      tolerations: [{ key: 'nvidia.com/gpu' }, { key: 'spot' }],
      containers: [
        {
          resources: { limits: { 'nvidia.com/gpu': '2' }, requests: { memory: '16Gi' } },
          terminationMessagePolicy: 'FallbackToLogsOnError',
        },
      ],
    });
    expect(pod.spec!.volumes).toEqual([
      { name: 'home', persistentVolumeClaim: { claimName: 'models' } },
      { name: 'tmp', emptyDir: {} },
      { name: 'shm', emptyDir: { medium: 'Memory' } },
    ]);
    expect(pod.spec!.containers).toHaveLength(1);
  });
});
