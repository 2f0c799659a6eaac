import * as z from 'zod';
import type { Machine } from '../../scheduler/rpc.ts';
import { CONTAINER } from './pod.ts';

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

/** The reasons for waiting that no waiting removes. */
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

/** A pod that still exists this many ms after it was to be gone is on a node that does not answer. */
const LATE_MS = 30_000;

/** @param now epoch ms */
export function machineOf(pod: PodShape, now: number): Machine {
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

/** Returns why a deleted pod still exists. The time of its deletion is the end of its grace. */
function whyStillThere({ metadata: { deletionTimestamp } }: PodShape, now: number): { detail?: string } {
  if (!deletionTimestamp || now - deletionTimestamp.getTime() < LATE_MS) return {};
  const due = deletionTimestamp.toISOString();
  return {
    detail: `Kubernetes was told to delete it by ${due}, and its node has not said that its containers have ended`,
  };
}

function judge(pod: PodShape, now: number): Pick<Machine, 'state' | 'no_capacity' | 'detail'> {
  const { status } = pod;
  const { waiting, terminated } =
    status?.containerStatuses?.find(({ name }) => name === CONTAINER)?.state ?? {};
  // A pod has a reason of its own only where its node ended it (Evicted, DeadlineExceeded); its container may never
  // have run.
  const end = {
    state: 'ended' as const,
    detail: words(status?.reason ?? terminated?.reason, status?.message ?? terminated?.message),
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

function pending(
  { status, metadata }: PodShape,
  now: number,
): Pick<Machine, 'state' | 'no_capacity' | 'detail'> {
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
