import type { SessionShare } from '../../fleet/rpc.ts';
import type { PoolJobs, QueueStatus } from '../rpc.ts';
import type { PoolCounts } from '../state/pool-counts.ts';
import type { Core } from '../state/state.ts';
import { isLeaving, profileOf, type Worker } from '../state/worker.ts';

/** Shows the connected workers to other parts of the system. */

export function sessions(core: Core): SessionShare[] {
  return core.workers.all().map((worker) => ({
    worker_id: worker.session.worker_id,
    config_id: worker.session.config_id,
    state: sessionState(worker),
    protocol: profileOf(worker).protocol,
    capacity: worker.session.capacity,
    running: worker.running.size,
    models: worker.models,
    adapters: worker.adapters,
    connected_at: worker.session.connected_at,
  }));
}

/** Says whether a worker is connected under this session. */
export function hasSession(core: Core, workerId: string, sessionId: string): boolean {
  return core.workers.byId(workerId)?.session.session_id === sessionId;
}

export function status(core: Core): QueueStatus {
  const all = core.workers.all();
  return {
    queue_id: core.settings.queue_id,
    workers: all.length,
    slots: all.reduce((sum, worker) => sum + worker.session.capacity, 0),
    running: all.reduce((sum, worker) => sum + worker.running.size, 0),
    pending: core.stored.pending.all + core.waiting.line.size,
  };
}

/** Counts the jobs of a pool by their state. */
export function poolJobs(core: Core, configId: string): PoolJobs {
  const workers = core.workers.all().filter(({ session }) => session.config_id === configId);
  return {
    in_queue: core.stored.pending.ofPool(configId) + core.waiting.line.ofPool(configId),
    in_progress: workers.reduce((sum, worker) => sum + worker.running.size, 0),
    ...ended(core.counts.of(configId)),
  };
}

function ended(counts: PoolCounts | null): Omit<PoolJobs, 'in_queue' | 'in_progress'> {
  if (counts === null) return { completed: 0, failed: 0, retried: 0 };
  const { waiting, stored } = counts.settled;
  return {
    completed: waiting.succeeded + stored.succeeded,
    failed: waiting.failed + waiting.expired + stored.failed + stored.expired,
    retried: counts.retried,
  };
}

function sessionState(worker: Worker): SessionShare['state'] {
  if (isLeaving(worker)) return 'draining';
  return worker.session.paused ? 'paused' : 'ready';
}
