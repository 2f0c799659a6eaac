import type { ConfigShare, QueueShare } from '../../fleet/rpc.ts';
import { sessions } from './fleet-views.ts';
import type { Core } from './state.ts';

/** All of the queue's numbers that the fleet object shows. */
export function share(core: Core): QueueShare {
  const configs = new Set([
    ...core.fleet.all().map(({ session }) => session.config_id),
    ...core.stored.pending.configs(),
    ...core.memory.waiting.configs(),
  ]);
  return {
    at: core.now(),
    full: true,
    sessions: sessions(core),
    gone: [],
    configs: [...configs].map((configId) => configShare(core, configId)),
  };
}

function configShare({ fleet, stored, memory }: Core, configId: string): ConfigShare {
  const workers = fleet.all().filter(({ session }) => session.config_id === configId);
  return {
    config_id: configId,
    callers: memory.waiting.ofConfig(configId),
    stored: stored.pending.ofConfig(configId),
    by_priority: [],
    oldest_since: null,
    running: workers.reduce((sum, worker) => sum + worker.running.size, 0),
    totals: {
      submitted: 0,
      succeeded: 0,
      failed: 0,
      cancelled: 0,
      expired: 0,
      rejected: 0,
      tokens_in: 0,
      tokens_out: 0,
    },
    wait_buckets: [],
    first_token_buckets: [],
    duration_buckets: [],
  };
}
