import type { QueueStatus, SessionView } from '../rpc.ts';
import type { Core } from './state.ts';
import { isLeaving, profileOf, type Worker } from './worker.ts';

/** The connected workers as others see them. */

export function sessions(core: Core): SessionView[] {
  return core.fleet.all().map((worker) => ({
    worker_id: worker.session.worker_id,
    config_id: worker.session.config_id,
    state: sessionState(worker),
    protocol: profileOf(worker).protocol,
    capacity: worker.session.capacity,
    running: worker.running.size,
    models: worker.models,
    connected_at: worker.session.connected_at,
  }));
}

/** @param configId whose jobs are counted too, by how they stand */
export function status(core: Core, configId?: string): QueueStatus {
  const all = core.fleet.all();
  return {
    queue_id: core.settings.queue_id,
    workers: all.length,
    slots: all.reduce((sum, worker) => sum + worker.session.capacity, 0),
    running: all.reduce((sum, worker) => sum + worker.running.size, 0),
    pending: core.stored.pending.all + core.memory.waiting.size,
    ...(configId === undefined ? {} : { config: configStatus(core, configId) }),
  };
}

function configStatus(core: Core, configId: string): QueueStatus['config'] {
  const workers = core.fleet.all().filter(({ session }) => session.config_id === configId);
  return {
    in_queue: core.stored.pending.ofConfig(configId) + core.memory.waiting.ofConfig(configId),
    in_progress: workers.reduce((sum, worker) => sum + worker.running.size, 0),
    ...core.tally.of(configId),
  };
}

function sessionState(worker: Worker): SessionView['state'] {
  if (isLeaving(worker)) return 'draining';
  return worker.session.paused ? 'paused' : 'ready';
}
