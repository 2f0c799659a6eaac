import { withTimeout } from '../../process/clock.ts';
import type { Web } from '../../process/http.ts';
import type { PostHeartbeat } from '../telemetry/heartbeat.ts';
import type { Addresses } from './addresses.ts';
import { SDK_VERSION } from './http-platform.ts';

/** The ping must arrive within this time, ms: RunPod's SDK ends right after its own. */
const WITHIN_MS = 2000;
const REASON_CHARACTERS = 256;

/**
 * Returns a taker of heartbeats that reports one thing alone to the platform: a start that has failed, with its reason.
 */
export function unhealthyPinger(
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
