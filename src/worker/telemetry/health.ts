import type { Report } from './worker-status.ts';

/** Returns the body of the worker's own `GET /healthz`, with Dynamo's names where it has them. */
export function healthOf(report: Report) {
  const { gpus = [] } = report;
  const reason = reasonOf(report);
  return {
    /** `healthy` while the worker takes jobs. */
    status: reason === null ? 'healthy' : 'unhealthy',
    /** Why the worker is unhealthy, for people. */
    ...(reason === null ? {} : { reason }),
    worker_id: report.worker_id,
    config_id: report.config_id,
    model_name: report.model ?? null,
    engine: report.engine ?? null,
    engine_version: report.engine_version ?? null,
    /** The jobs that run, and how many may run. */
    running: report.running,
    capacity: report.capacity,
    /** The memory of all the worker's GPUs, bytes; null: not known. */
    gpu_memory_used: sumOf(gpus.map((gpu) => gpu.memory_used_bytes)),
    gpu_memory_total: sumOf(gpus.map((gpu) => gpu.memory_total_bytes)),
    gpus,
  };
}

function reasonOf({ status, phase, progress }: Report): string | null {
  switch (status) {
    case 'running':
      return null;
    case 'draining':
      return 'it drains: it finishes what runs, and ends';
    case 'starting':
      return `it starts: ${phase}${progress === undefined ? '' : `, ${Math.floor(progress * 100)} %`}`;
    case null:
      return 'its engine is not healthy, or it has no connection to the queue; its log says which';
  }
}

function sumOf(values: (number | undefined)[]): number | null {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
}
