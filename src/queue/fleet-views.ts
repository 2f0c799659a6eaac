import type { ModelView, QueueStatus, WorkerView } from './calls.ts';
import type { Core } from './core.ts';
import { servesModel, type Worker } from './fleet.ts';
import { knownModels, type WorkerRow, workerRows } from './fleet-tables.ts';

/** The fleet as operators and callers see it. */

export function models(core: Core): ModelView[] {
  return knownModels(core.sql).map((entry) => ({
    id: entry.model,
    config_id: entry.config_id,
    available: core.fleet
      .all()
      .some((worker) => !worker.session.draining && servesModel(worker, entry.model)),
    first_seen_ms: entry.first_seen,
  }));
}

export function workers(core: Core): WorkerView[] {
  return workerRows(core.sql).map((row) => workerView(core.fleet.byId(row.worker_id), row));
}

export function status(core: Core): QueueStatus {
  const all = core.fleet.all();
  return {
    queue_id: core.settings.queue_id,
    workers: all.length,
    slots: all.reduce((sum, worker) => sum + worker.session.capacity, 0),
    running: all.reduce((sum, worker) => sum + worker.running.size, 0),
    pending: core.pending.all + core.transients.waiting,
  };
}

function workerView(worker: Worker | null, row: WorkerRow): WorkerView {
  const { instance, heartbeat } = row;
  return {
    worker_id: row.worker_id,
    instance_id: instance?.id ?? heartbeat?.instance_id ?? row.worker_id,
    config_id: worker?.session.config_id ?? row.config_id,
    state: connectionState(worker),
    status: heartbeat?.status ?? null,
    phase: heartbeat?.phase ?? null,
    error_message: heartbeat?.error_message ?? null,
    protocol: worker === null ? null : worker.session.extended ? 'extended' : 'base',
    capacity: worker?.session.capacity ?? 0,
    running: worker?.running.size ?? 0,
    host: instance?.host ?? null,
    gpu: instance?.gpu ?? null,
    engine: instance?.engine ?? null,
    engine_version: instance?.engine_version ?? null,
    models: worker?.models ?? instance?.models ?? [],
    connected_at: worker === null ? null : new Date(worker.session.connected_at).toISOString(),
    last_heartbeat_at: row.heartbeat_at === null ? null : new Date(row.heartbeat_at).toISOString(),
  };
}

function connectionState(worker: Worker | null): WorkerView['state'] {
  if (worker === null) return 'disconnected';
  if (worker.session.draining) return 'draining';
  return worker.session.paused ? 'paused' : 'ready';
}
