import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type KubernetesObject, KubernetesObjectApi } from '@kubernetes/client-node';
import { parseAllDocuments } from 'yaml';
import { api, config, isOurs, QUEUE_IMAGE, WORKER_IMAGE } from './cluster.ts';

/** What `kubectl apply -f deploy/kubernetes/…` makes, on a node without room and without a registry. */

/**
 * Unlike the manifests: images are those of this checkout, and resources those of one small node. A cluster of ours is
 * of a version that has two kinds of objects, of the same shape, under earlier names.
 */
const INSTEAD: Record<string, string> = {
  'ghcr.io/worker-vllm/worker-vllm-queue:latest': QUEUE_IMAGE,
  'ghcr.io/worker-vllm/worker-vllm:latest': WORKER_IMAGE,
};

const EARLIER: Record<string, string> = {
  'policy/v1': 'policy/v1beta1',
  'autoscaling/v2': 'autoscaling/v2beta2',
};

interface Container {
  image: string;
  env?: { name: string; value?: string }[];
  resources: { requests: Record<string, string>; limits: Record<string, string> };
}

interface Workload {
  spec?: { template?: { spec: { containers: Container[] } } };
}

/** The objects of a file, as they are written. */
export function objectsOf(file: string): KubernetesObject[] {
  const text = readFileSync(join(import.meta.dirname, '../../deploy/kubernetes', file), 'utf8');
  return parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject);
}

/** @param env more variables of its containers */
export async function apply(
  file: string,
  namespace: string,
  env: Record<string, string> = {},
): Promise<void> {
  const objects = KubernetesObjectApi.makeApiClient(config);
  for (const object of objectsOf(file)) {
    if (isOurs) object.apiVersion = EARLIER[object.apiVersion!] ?? object.apiVersion!;
    for (const container of (object as Workload).spec?.template?.spec.containers ?? []) {
      container.env = [
        ...(container.env ?? []),
        ...Object.entries(env).map(([name, value]) => ({ name, value })),
      ];
      container.image = INSTEAD[container.image] ?? container.image;
      for (const list of Object.values(container.resources)) {
        if ('cpu' in list) list.cpu = '50m';
        if ('memory' in list && list === container.resources.requests) list.memory = '64Mi';
      }
    }
    await objects.create({ ...object, metadata: { ...object.metadata, namespace } });
  }
}

/** The secret with a token of each scope, as the heads of both queue.yaml have it made. @param more of its keys */
export async function makeSecret(
  namespace: string,
  more: Record<string, string> = {},
): Promise<Record<string, string>> {
  const scopes = ['worker', 'submit', 'read', 'launcher', 'admin', 'gateway'];
  const tokens = Object.fromEntries(scopes.map((scope) => [scope, `token-of-${scope}-${namespace}`]));
  const stringData = { ...tokens, ...more };
  await api.createNamespacedSecret({ namespace, body: { metadata: { name: 'worker-vllm' }, stringData } });
  return stringData;
}

/** Storage for a pod of the queue, which clusters elsewhere make themselves. @returns what removes it */
export async function makeVolume(
  namespace: string,
  pod = 'worker-vllm-queue-0',
): Promise<() => Promise<void>> {
  const name = `${namespace}-${pod}`;
  const folder = mkdtempSync(join(tmpdir(), 'wv-volume-'));
  // A path of the node is not given to fsGroup, as storage of clusters is.
  chmodSync(folder, 0o777);
  const spec = {
    capacity: { storage: '10Gi' },
    accessModes: ['ReadWriteOnce'],
    hostPath: { path: folder },
    claimRef: { namespace, name: `state-${pod}` },
  };
  await api.createPersistentVolume({ body: { metadata: { name }, spec } });
  return async () => {
    await api.deletePersistentVolume({ name });
    // A queue that is just ending may still write there.
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  };
}
