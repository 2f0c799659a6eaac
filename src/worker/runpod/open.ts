import { withTimeout } from '../../process/clock.ts';
import type { Web } from '../../process/http.ts';
import type { Ports } from '../ports.ts';
import type { PostHeartbeat } from '../telemetry/heartbeat.ts';
import {
  type Addresses,
  type AddressTemplates,
  addressesFrom,
  httpPlatform,
  SDK_VERSION,
} from './http-platform.ts';
import { type LocalMode, openLocally } from './local.ts';
import { RunpodQueue, type RunpodQueuePorts } from './runpod-queue.ts';

/** The RunPod endpoint that this worker belongs to, and its settings. */
export interface RunpodQueueSettings {
  /** The platform, or one of the local modes of RunPod's SDK, which stands in for it. */
  at: AddressTemplates | LocalMode;
  /** The id by which the platform calls this worker. */
  workerId: string;
  apiKey: string | undefined;
  pingIntervalMs: number;
  /** Whether each result asks the platform for a new worker, and this one ends. */
  refreshes: boolean;
  /** The hosts to which the local API posts, whatever their addresses; null: it posts to any public host over https. */
  webhookHosts: readonly string[] | null;
}

/** The ping must arrive within this time, ms: RunPod's SDK exits right after its own. */
const WITHIN_MS = 2000;
const REASON_CHARACTERS = 256;

/**
 * Returns a taker of heartbeats that reports only one thing to the platform: a start that has failed, with its reason.
 */
function unhealthyPinger(
  web: Web,
  ping: NonNullable<Addresses['ping']>,
  apiKey: string | undefined,
): PostHeartbeat {
  let isSaid = false;
  return async ({ status, error_message: reason = 'unknown' }) => {
    if (isSaid || (status !== 'failed' && status !== 'fatal')) return;
    isSaid = true;
    const parameters = new URLSearchParams({
      status: 'unhealthy',
      check: 'engine',
      reason: reason.slice(0, REASON_CHARACTERS),
      runpod_version: SDK_VERSION,
    });
    const headers = apiKey ? { authorization: apiKey } : {};
    await withTimeout(web.clock, WITHIN_MS, async (signal) => {
      const response = await web.fetch(ping(parameters), { headers, signal });
      await response.body?.cancel();
    });
  };
}

export interface OpenedQueue {
  queue: RunpodQueue;
  /** Reports to the platform that a start has failed; null: the platform takes no pings. */
  post: PostHeartbeat | null;
  /** Returns the exit code of the process; null: the worker's own. */
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
  // RunPod recognises the sender of a ping by the key.
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
