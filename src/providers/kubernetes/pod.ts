import type { V1Pod } from '@kubernetes/client-node';
import { isObject } from '../../protocol/fields.ts';
import type { LaunchRequest } from '../driver.ts';
import { FAR_GRACE_SECONDS, secondsToEnd } from '../grace.ts';
import { DEFAULT_IMAGE } from '../image.ts';

/** The label of all pods of all installations; a pod's name tells its installation. */
export const MANAGED_BY = { label: 'app.kubernetes.io/managed-by', value: 'worker-vllm-launcher' };
export const CONTAINER = 'worker';
/** The instance type of a candidate that names none: any node will do. */
const ANY_INSTANCE_TYPE = 'local';

type Plain = Record<string, unknown>;

/**
 * Returns a pod for one worker, as in deploy/kubernetes/worker.yaml. @param extra fields that are merged into its spec
 */
export function podOf(request: LaunchRequest, extra: Plain = {}): V1Pod {
  const { name, instance_type, gpus, disk_gb, image, env } = request;
  const given = { HOME: '/home/worker', CASOLA_SHUTDOWN_GRACE_PERIOD: String(FAR_GRACE_SECONDS), ...env };
  const resources = {
    ...(disk_gb === null ? {} : { requests: { 'ephemeral-storage': `${disk_gb}G` } }),
    ...(gpus === 0 ? {} : { limits: { 'nvidia.com/gpu': String(gpus) } }),
  };
  const spec = {
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: secondsToEnd(given),
    automountServiceAccountToken: false,
    // With it, Kubernetes would add the variables VLLM_PORT and the like for a Service named vllm.
    enableServiceLinks: false,
    // The NVIDIA GPU operator gives nodes this label.
    ...(instance_type === ANY_INSTANCE_TYPE
      ? {}
      : { nodeSelector: { 'nvidia.com/gpu.product': instance_type } }),
    tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }],
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 10001,
      runAsGroup: 10001,
      fsGroup: 10001,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [
      {
        name: CONTAINER,
        image: image ?? DEFAULT_IMAGE,
        env: Object.entries(given).map(([variable, value]) => ({ name: variable, value })),
        resources,
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        volumeMounts: [
          { name: 'home', mountPath: '/home/worker' },
          { name: 'tmp', mountPath: '/tmp' },
          { name: 'shm', mountPath: '/dev/shm' },
        ],
      },
    ],
    volumes: [
      { name: 'home', emptyDir: {} },
      { name: 'tmp', emptyDir: {} },
      { name: 'shm', emptyDir: { medium: 'Memory' } },
    ],
  };
  const labels = { 'app.kubernetes.io/name': 'worker-vllm', [MANAGED_BY.label]: MANAGED_BY.value };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels },
    spec: merged(spec, extra) as V1Pod['spec'],
  };
}

/** Merges objects field by field and lists of named things by name; other lists are appended. */
function merged(base: unknown, extra: unknown): unknown {
  if (Array.isArray(base) && Array.isArray(extra)) return mergedLists(base, extra);
  if (!isObject(base) || !isObject(extra)) return extra;
  const fields = Object.entries(extra).map(([name, value]) => {
    return [name, name in base ? merged(base[name], value) : value];
  });
  return { ...base, ...Object.fromEntries(fields) };
}

function mergedLists(base: unknown[], extra: unknown[]): unknown[] {
  const nameOf = (one: unknown) => (isObject(one) ? one.name : undefined);
  const named = (name: unknown) => extra.find((one) => name !== undefined && nameOf(one) === name);
  const names = new Set(base.map(nameOf));
  return [
    ...base.map((one) => {
      const same = named(nameOf(one));
      // A volume is of one type: the given volume replaces ours.
      return same === undefined ? one : isObject(one) && 'emptyDir' in one ? same : merged(one, same);
    }),
    ...extra.filter((one) => nameOf(one) === undefined || !names.has(nameOf(one))),
  ];
}
