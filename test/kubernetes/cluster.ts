import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ApiException, CoreV1Api, KubeConfig, type V1Pod } from '@kubernetes/client-node';
import { MANAGED_BY } from '../../src/providers/kubernetes/pod.ts';
import { until } from '../support/poll.ts';

/** The cluster of these tests, looked at from outside, as its operator sees it. */

/** Tagged, so that nodes take them as they are. In a cluster that is not ours: names that its nodes can pull. */
export const QUEUE_IMAGE = process.env.TEST_QUEUE_IMAGE ?? 'worker-vllm-queue:test';
export const WORKER_IMAGE = process.env.TEST_WORKER_IMAGE ?? 'worker-vllm:test';

/** Of one with two cores, and everything in pods. */
export const SLOW = { timeoutMs: 150_000, everyMs: 200 };

export const config = new KubeConfig();
config.loadFromDefault();
export const api = config.makeApiClient(CoreV1Api);

/** Where pods reach this machine. */
export const HOST_ADDRESS = process.env.TEST_HOST_ADDRESS ?? '';

const folder = process.env.TEST_CLUSTER_FOLDER;
/** Its processes may be stopped and its node's status written. */
export const isOurs = folder !== undefined;

/** A program of the cluster is killed, or started again. */
export function cluster(command: 'start' | 'stop', name: 'kubelet' | 'kube-apiserver'): void {
  execFileSync(join(import.meta.dirname, '../../scripts/kubernetes/cluster.sh'), [command, folder!, name]);
}

const namespaces: string[] = [];

/** A namespace of its own for each test. */
export async function newNamespace(): Promise<string> {
  const name = `wvt-${process.pid}-${namespaces.length + 1}`;
  await api.createNamespace({ body: { metadata: { name } } });
  namespaces.push(name);
  await until(
    () => api.readNamespacedServiceAccount({ name: 'default', namespace: name }),
    'its account',
    SLOW,
  );
  return name;
}

/** For `afterEach`: pods of a test would take the places of the next. */
export async function removeNamespaces(): Promise<void> {
  for (const namespace of namespaces) {
    await api.deleteCollectionNamespacedPod({ namespace, gracePeriodSeconds: 0 }).catch(ignoreMissing);
    await api.deleteNamespace({ name: namespace }).catch(ignoreMissing);
  }
  for (const namespace of namespaces) {
    await until(async () => (await podsOf(namespace)).length === 0, `no pod is in ${namespace}`, SLOW);
  }
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof ApiException) || error.code !== 404) throw error;
}

/** All pods of a namespace that a launcher made, whatever their state. */
export async function podsOf(namespace: string): Promise<V1Pod[]> {
  const labelSelector = `${MANAGED_BY.label}=${MANAGED_BY.value}`;
  return (await api.listNamespacedPod({ namespace, labelSelector })).items;
}

export function nameOf(pod: V1Pod): string {
  return pod.metadata!.name!;
}

/** Ids of containers of a pod's workers that run on the node, whatever the API server knows. Only of a cluster of ours. */
export function containersOf(pod: string): string[] {
  const filter = `name=^/k8s_worker_${pod}_`;
  return execFileSync('docker', ['ps', '--quiet', '--filter', filter], { encoding: 'utf8' })
    .split('\n')
    .filter(Boolean);
}

/** Writes what the node says that it has. Only of a cluster of ours. @param count null: it has none */
export async function giveGpus(count: number | null): Promise<void> {
  const { status } = await api.readNode({ name: 'node' });
  const had = 'nvidia.com/gpu' in (status?.capacity ?? {});
  if (count === null && !had) return;
  const paths = ['capacity', 'allocatable'].filter(
    (list) => 'nvidia.com/gpu' in ((status as never)?.[list] ?? {}) || count !== null,
  );
  const body = paths.map((list) => ({
    op: count === null ? 'remove' : 'add',
    path: `/status/${list}/nvidia.com~1gpu`,
    ...(count === null ? {} : { value: String(count) }),
  }));
  await api.patchNodeStatus({ name: 'node', body });
}
