import type { Ports } from '../ports.ts';
import type { PostHeartbeat } from '../telemetry/heartbeat.ts';
import { type AddressTemplates, addressesFrom } from './addresses.ts';
import { httpPlatform } from './http-platform.ts';
import { openLocally } from './local.ts';
import { RunpodQueue, type RunpodQueuePorts } from './runpod-queue.ts';
import type { RunpodQueueSettings } from './settings.ts';
import { unhealthyPinger } from './unhealthy.ts';

export interface OpenedQueue {
  queue: RunpodQueue;
  /** Tells the platform that a start has failed; null: the platform takes no pings. */
  post: PostHeartbeat | null;
  /** The exit code of the process; null: that of the worker. */
  exitCode(): number | null;
  close(): void;
}

type OutsidePorts = Pick<Ports, 'clock' | 'fetch' | 'fetchPublic' | 'random' | 'log'>;

/**
 * Opens RunPod's queue: the platform's, or its stand-in on this machine.
 * @param end called when this worker should end
 * @throws UserError
 */
export async function openRunpodQueue(
  settings: RunpodQueueSettings,
  ports: OutsidePorts,
  end: () => void,
): Promise<OpenedQueue> {
  const { at, pingIntervalMs, refreshes, webhookHosts } = settings;
  const create = (platform: RunpodQueuePorts['platform']) =>
    new RunpodQueue({ ...ports, platform, pingIntervalMs, refreshes, refresh: end });
  if (!('take' in at)) {
    const { platform, ...local } = await openLocally(at, ports, webhookHosts, end);
    return { ...local, queue: create(platform), post: null };
  }
  const { platform, post } = openPlatform(at, settings, ports);
  return { queue: create(platform), post, exitCode: () => null, close: () => platform.close?.() };
}

function openPlatform(
  templates: AddressTemplates,
  { workerId, apiKey, pingIntervalMs }: RunpodQueueSettings,
  ports: OutsidePorts,
): { platform: RunpodQueuePorts['platform']; post: PostHeartbeat | null } {
  const addresses = addressesFrom(templates, workerId);
  // RunPod recognises the sender of a ping by its key.
  if (!apiKey || !templates.ping) {
    ports.log.warn({}, 'no pings: RUNPOD_AI_API_KEY and RUNPOD_WEBHOOK_PING are not both set');
    addresses.ping = null;
  }
  const { ping } = addresses;
  return {
    platform: httpPlatform({ addresses, apiKey, pingIntervalMs }),
    post: ping && unhealthyPinger(ports, ping, apiKey),
  };
}
