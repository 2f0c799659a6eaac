import { GRACE_SECONDS, wayDownMs } from '../../process/way-down.ts';
import type { ProviderSpec } from '../../scheduler/spec.ts';
import type { LaunchRequest } from '../driver.ts';
import { DEFAULT_IMAGE } from '../image.ts';
import type { ListedContainer } from './engine.ts';

type DockerSpec = Extract<ProviderSpec, { driver: 'docker' }>;

/** The label by which our containers are found. Its value is the name, which is the container's too. */
export const NAME_LABEL = 'worker-vllm.name';
/** The label with the indices of a container's GPUs: Docker reserves none. */
export const GPUS_LABEL = 'worker-vllm.gpus';
/** The label with the seconds that the worker has to finish its jobs. */
const GRACE_LABEL = 'worker-vllm.grace';

/** Returns the container that the daemon is asked to create. */
export function containerOf(request: LaunchRequest, gpus: number[], { network, volumes }: DockerSpec) {
  const { name, env } = request;
  const grace = String(env.CASOLA_SHUTDOWN_GRACE_PERIOD ?? GRACE_SECONDS);
  const devices = {
    Driver: 'nvidia',
    DeviceIDs: gpus.map(String),
    Capabilities: [['gpu']],
  };
  return {
    Image: imageOf(request),
    Env: Object.entries(env).map(([variable, value]) => `${variable}=${value}`),
    Labels: { [NAME_LABEL]: name, [GPUS_LABEL]: gpus.join(','), [GRACE_LABEL]: grace },
    StopTimeout: secondsToStop(grace),
    HostConfig: {
      DeviceRequests: gpus.length > 0 ? [devices] : [],
      // vLLM's processes share memory.
      IpcMode: 'host',
      Binds: volumes,
      ...(network ? { NetworkMode: network } : {}),
      // With this host name, workers reach a queue on the host.
      ...(network === 'host' ? {} : { ExtraHosts: ['host.docker.internal:host-gateway'] }),
      // The scheduler decides what runs; exit code and log of an ended container are needed.
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
      Init: true,
    },
  };
}

/** Returns how long a container may take to end, s. */
export function graceOf({ Labels }: ListedContainer): number {
  return secondsToStop(Labels[GRACE_LABEL]);
}

function secondsToStop(grace: string | undefined): number {
  return Math.ceil(wayDownMs(Number(grace ?? GRACE_SECONDS) * 1000) / 1000);
}

export function gpusOf({ Labels }: ListedContainer): number[] {
  return (Labels[GPUS_LABEL] ?? '').split(',').filter(Boolean).map(Number);
}

export function nameOf({ Labels }: ListedContainer): string {
  return Labels[NAME_LABEL] ?? '';
}

export function imageOf({ image }: LaunchRequest): string {
  return image ?? DEFAULT_IMAGE;
}
