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
  /** Says to the platform that a start has failed; null: it does not listen. */
  post: PostHeartbeat | null;
  /** Of the process; null: that of the worker. */
  exitCode(): number | null;
  close(): void;
}

type OutsidePorts = Pick<Ports, 'clock' | 'fetch' | 'fetchPublic' | 'random' | 'log'>;

/**
 * RunPod's queue: the platform's, or its stand-in on this machine.
 * @param end this worker is to end
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
  // Without a key RunPod knows no sender of a ping.
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
