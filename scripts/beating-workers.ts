import { setTimeout as sleep } from 'node:timers/promises';
import type { Heartbeat } from '../src/protocol/index.ts';

/**
 * Plays workers that only post heartbeats, all of them in turns within an interval.
 * @param until resolves soon after it is aborted
 * @throws Error with the queue's answer if it refuses one
 */
export async function beatingWorkers(
  url: string,
  count: number,
  intervalMs: number,
  until: AbortSignal,
): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, n) => beats(n)));

  async function beats(n: number): Promise<void> {
    await pause((intervalMs * n) / count);
    while (!until.aborted) {
      const beat = heartbeatOf(n, intervalMs / 1000);
      const response = await fetch(`${url}/api/heartbeats`, { method: 'POST', body: JSON.stringify(beat) });
      if (!response.ok) throw new Error(await response.text());
      await response.arrayBuffer();
      await pause(intervalMs);
    }
  }

  async function pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: until }).catch(() => {});
  }
}

function heartbeatOf(n: number, intervalSeconds: number): Heartbeat {
  const gpu = { name: 'NVIDIA H100', memory_used_bytes: 6e10, memory_total_bytes: 8e10 };
  return {
    instance_id: `worker-${n}`,
    config_id: `config-${n % 20}`,
    status: 'running',
    interval_seconds: intervalSeconds,
    tokens_per_second: Math.random() * 1000,
    kv_cache_usage: Math.random(),
    engine_running: 8,
    engine_waiting: 2,
    gpus: [{ ...gpu, utilization: Math.random() }],
  };
}
