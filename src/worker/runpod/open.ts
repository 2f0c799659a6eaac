import { UserError } from '../../process/index.ts';
import type { Ports } from '../ports.ts';
import type { PostHeartbeat } from '../telemetry/heartbeat.ts';
import { addressesFrom } from './addresses.ts';
import { httpPlatform } from './http-platform.ts';
import { RunpodQueue } from './runpod-queue.ts';
import type { RunpodQueueSettings } from './settings.ts';
import { unhealthyPinger } from './unhealthy.ts';

export interface OpenedQueue {
  queue: RunpodQueue;
  /** Says to the platform that a start has failed; null: it does not listen. */
  post: PostHeartbeat | null;
}

/**
 * RunPod's queue at the addresses of the endpoint.
 * @param refresh this worker is to end: the platform replaces it
 */
export function openRunpodQueue(
  settings: RunpodQueueSettings,
  ports: Pick<Ports, 'clock' | 'fetch' | 'random' | 'log'>,
  refresh: () => void,
): OpenedQueue {
  const { apiKey, pingIntervalMs, refreshes } = settings;
  if (settings.addresses === null) throw new UserError('QUEUE=runpod needs RUNPOD_WEBHOOK_GET_JOB.');
  const addresses = addressesFrom(settings.addresses, settings.workerId);
  // Without a key RunPod knows no sender of a ping.
  if (!apiKey || !settings.addresses.ping) {
    ports.log.warn({}, 'no pings: RUNPOD_AI_API_KEY and RUNPOD_WEBHOOK_PING are not both set');
    addresses.ping = null;
  }
  const { ping } = addresses;
  const platform = httpPlatform(ports, { addresses, apiKey, pingIntervalMs });
  return {
    queue: new RunpodQueue({ ...ports, platform, pingIntervalMs, refreshes, refresh }),
    post: ping && unhealthyPinger(ports, ping, apiKey),
  };
}
