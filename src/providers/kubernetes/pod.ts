import type { V1Pod } from '@kubernetes/client-node';
import * as z from 'zod';
import { isObject } from '../../protocol/fields.ts';
import type { ListedMachine } from '../../scheduler/rpc.ts';
import { FAR_GRACE_SECONDS, imageOf, type LaunchRequest, secondsToEnd } from '../driver.ts';

/** The label of all pods of all installations; a pod's name tells its installation. */
export const MANAGED_BY = { label: 'app.kubernetes.io/managed-by', value: 'worker-vllm-launcher' };
const CONTAINER = 'worker';
/** The instance type of a candidate that names none: any node will do. */
const ANY_INSTANCE_TYPE = 'local';

/** The default grace of a worker on a spot node, s: a node that is taken away gives a pod 15 s, on GKE. */
const SPOT_GRACE_SECONDS = 10;

type Plain = Record<string, unknown>;

/** The fields that an operator has merged into the specs of pods. */
interface Extra {
  pod?: Plain | undefined;
  /** The operator has merged these fields into the specs of spot pods alone. */
  spot_pod?: Plain | undefined;
}

/** Returns a pod for one worker, as in deploy/kubernetes/worker.yaml. */
export function podOf(request: LaunchRequest, { pod = {}, spot_pod = {} }: Extra = {}): V1Pod {
  const { name, instance_type, gpus, disk_gb, image, env, spot } = request;
  const grace = spot ? SPOT_GRACE_SECONDS : FAR_GRACE_SECONDS;
  const given = { HOME: '/home/worker', CASOLA_SHUTDOWN_GRACE_PERIOD: String(grace), ...env };
  const resources = {
    ...(disk_gb === null ? {} : { requests: { 'ephemeral-storage': `${disk_gb}G` } }),
    ...(gpus === 0 ? {} : { limits: { 'nvidia.com/gpu': String(gpus) } }),
  };
  const spec = {
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: secondsToEnd(given),
    automountServiceAccountToken: false,
    // Otherwise Kubernetes would add the variables VLLM_PORT and the like for a Service named vllm.
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
        image: imageOf({ image, env: given }),
        env: Object.entries(given).map(([variable, value]) => ({ name: variable, value })),
        resources,
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        // The last lines of a failed worker's log become the pod's message, which says why it failed.
        terminationMessagePolicy: 'FallbackToLogsOnError',
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
    spec: placed(merged(spec, pod), request, spot_pod) as V1Pod['spec'],
  };
}

/** Puts a spot pod onto spot nodes, and keeps any other pod off them: not all clouds taint them. */
function placed(spec: unknown, { spot }: LaunchRequest, spotPod: Plain): unknown {
  if (spot) return merged(spec, spotPod);
  const labels = isObject(spotPod.nodeSelector) ? Object.entries(spotPod.nodeSelector) : [];
  if (labels.length === 0 || !isObject(spec)) return spec;
  const affinity = isObject(spec.affinity) ? spec.affinity : {};
  const nodeAffinity = isObject(affinity.nodeAffinity) ? affinity.nodeAffinity : {};
  const required = nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution;
  const given =
    isObject(required) && Array.isArray(required.nodeSelectorTerms) ? required.nodeSelectorTerms : [];
  // A node has to match one of the terms: each of the operator's is combined with each label that a node may lack.
  const nodeSelectorTerms = (given.length === 0 ? [{}] : given).flatMap((term) =>
    labels.map(([key, value]) => ({
      ...term,
      matchExpressions: [...(term.matchExpressions ?? []), { key, operator: 'NotIn', values: [value] }],
    })),
  );
  const requiredDuringSchedulingIgnoredDuringExecution = { nodeSelectorTerms };
  return {
    ...spec,
    affinity: {
      ...affinity,
      nodeAffinity: { ...nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution },
    },
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

/** A time of the API server, which the client turns into a date. */
const Time = z.date().nullish();
const ContainerState = z.object({
  waiting: z.object({ reason: z.string().nullish(), message: z.string().nullish() }).nullish(),
  running: z.object({ startedAt: Time }).nullish(),
  terminated: z
    .object({
      exitCode: z.number().int(),
      reason: z.string().nullish(),
      message: z.string().nullish(),
      startedAt: Time,
      finishedAt: Time,
    })
    .nullish(),
});

/** The fields of a pod that this driver reads. */
export const PodShape = z.object({
  metadata: z.object({
    name: z.string(),
    uid: z.string(),
    creationTimestamp: Time,
    deletionTimestamp: Time,
  }),
  status: z
    .object({
      phase: z.string().nullish(),
      reason: z.string().nullish(),
      message: z.string().nullish(),
      startTime: Time,
      conditions: z
        .array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string().nullish(),
            message: z.string().nullish(),
            lastTransitionTime: Time,
          }),
        )
        .nullish(),
      containerStatuses: z.array(z.object({ name: z.string(), state: ContainerState.nullish() })).nullish(),
    })
    .nullish(),
});
export type PodShape = z.output<typeof PodShape>;

/** The reasons for waiting that do not pass by themselves. */
const HOPELESS = new Set([
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
]);

/** A node autoscaler may take this many ms to make room. */
const UNSCHEDULABLE_MS = 15 * 60_000;

/** A pod that exists this many ms after it should be gone is on a node that does not answer. */
const LATE_MS = 30_000;

/** Returns a pod as a listed machine. @param now epoch ms */
export function machineOf(pod: PodShape, now: number): ListedMachine {
  const { metadata, status } = pod;
  const container = status?.containerStatuses?.find(({ name }) => name === CONTAINER)?.state;
  const { running, terminated } = container ?? {};
  return {
    external_id: metadata.uid,
    name: metadata.name,
    created_at: metadata.creationTimestamp?.getTime() ?? null,
    started_at: (terminated?.startedAt ?? running?.startedAt)?.getTime() ?? null,
    ended_at: terminated?.finishedAt?.getTime() ?? null,
    price_per_hour: null,
    exit_code: terminated?.exitCode ?? null,
    ...judge(pod, now),
    ...whyStillThere(pod, now),
  };
}

/** Returns why a deleted pod still exists. Its deletion timestamp is the end of its grace. */
function whyStillThere({ metadata: { deletionTimestamp } }: PodShape, now: number): { detail?: string } {
  if (!deletionTimestamp || now - deletionTimestamp.getTime() < LATE_MS) return {};
  const due = deletionTimestamp.toISOString();
  return {
    detail: `Kubernetes was told to delete it by ${due}, and its node has not said that its containers have ended`,
  };
}

function judge(
  pod: PodShape,
  now: number,
): Pick<ListedMachine, 'state' | 'no_capacity' | 'preempted' | 'detail'> {
  const { status } = pod;
  const { waiting, terminated } =
    status?.containerStatuses?.find(({ name }) => name === CONTAINER)?.state ?? {};
  // A pod has a reason of its own only if its node ended it (Evicted, DeadlineExceeded); its container may never have
  // run.
  const reason = status?.reason ?? terminated?.reason;
  const end = {
    state: 'ended' as const,
    ...(isTakenBack(pod) ? { preempted: true } : {}),
    detail: status?.message
      ? words(reason, status.message)
      : // A worker's log begins on a line of its own, where its error is looked for.
        [reason, terminated?.message].filter(Boolean).join('\n') || null,
  };
  switch (status?.phase) {
    case 'Succeeded':
    case 'Failed':
      return end;
    case 'Running':
      // Other containers, such as a mesh's proxy, keep the pod running after the worker's has ended.
      return terminated ? end : { state: 'running', detail: null };
    case 'Pending':
      if (waiting?.reason && HOPELESS.has(waiting.reason)) {
        return { state: 'ended', detail: words(waiting.reason, waiting.message) };
      }
      return pending(pod, now);
    default:
      return { state: 'unknown', detail: `Kubernetes says ${status?.phase ?? 'nothing of its phase'}` };
  }
}

/**
 * Returns whether Kubernetes took the pod's place away: its node is drained or goes, or another pod needs it. A pod that
 * was evicted ran out of memory or disk on its node, for which the pod may be the cause.
 */
function isTakenBack({ status }: PodShape): boolean {
  if (status?.reason === 'Evicted') return false;
  return (
    status?.conditions?.some(({ type, status: is }) => type === 'DisruptionTarget' && is === 'True') ?? false
  );
}

function pending(
  { status, metadata }: PodShape,
  now: number,
): Pick<ListedMachine, 'state' | 'no_capacity' | 'detail'> {
  const condition = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  const isUnschedulable = condition?.status === 'False' && condition.reason === 'Unschedulable';
  if (!isUnschedulable) return { state: 'starting', detail: null };
  const since = (condition.lastTransitionTime ?? metadata.creationTimestamp)?.getTime() ?? now;
  const detail = words('Unschedulable', condition.message);
  if (now - since < UNSCHEDULABLE_MS) return { state: 'starting', detail };
  return { state: 'ended', no_capacity: true, detail };
}

function words(...said: (string | null | undefined)[]): string | null {
  return said.filter(Boolean).join(': ') || null;
}
