import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type KubernetesObject, KubernetesObjectApi } from '@kubernetes/client-node';
import { parseAllDocuments } from 'yaml';
import { api, config, QUEUE_IMAGE, WORKER_IMAGE } from './cluster.ts';

/** What `kubectl apply -f deploy/kubernetes/…` makes, on a node without room and without a registry. */

/** Unlike the manifests: images are those of this checkout, and resources those of one small node. */
const INSTEAD: Record<string, string> = {
  'ghcr.io/worker-vllm/worker-vllm-queue:latest': QUEUE_IMAGE,
  'ghcr.io/worker-vllm/worker-vllm:latest': WORKER_IMAGE,
};

interface Container {
  image: string;
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

export async function apply(file: string, namespace: string): Promise<void> {
  const objects = KubernetesObjectApi.makeApiClient(config);
  for (const object of objectsOf(file)) {
    for (const container of (object as Workload).spec?.template?.spec.containers ?? []) {
      container.image = INSTEAD[container.image] ?? container.image;
      for (const list of Object.values(container.resources)) {
        if ('cpu' in list) list.cpu = '50m';
        if ('memory' in list && list === container.resources.requests) list.memory = '64Mi';
      }
    }
    await objects.create({ ...object, metadata: { ...object.metadata, namespace } });
  }
}

/** The secret with a token of each scope, as the head of queue.yaml has it made. */
export async function makeSecret(namespace: string): Promise<Record<string, string>> {
  const scopes = ['worker', 'submit', 'read', 'launcher', 'admin'];
  const stringData = Object.fromEntries(scopes.map((scope) => [scope, `token-of-${scope}-${namespace}`]));
  await api.createNamespacedSecret({ namespace, body: { metadata: { name: 'worker-vllm' }, stringData } });
  return stringData;
}

/** Storage for the queue, which clusters elsewhere make themselves. @returns what removes it */
export async function makeVolume(name: string): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'wv-volume-'));
  // A path of the node is not given to fsGroup, as storage of clusters is.
  chmodSync(folder, 0o777);
  const spec = {
    capacity: { storage: '10Gi' },
    accessModes: ['ReadWriteOnce'],
    hostPath: { path: folder },
    claimRef: { namespace: name, name: 'state-worker-vllm-queue-0' },
  };
  await api.createPersistentVolume({ body: { metadata: { name }, spec } });
  return async () => {
    await api.deletePersistentVolume({ name });
    // A queue that is just ending may still write there.
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  };
}
