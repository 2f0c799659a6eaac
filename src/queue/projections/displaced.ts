import type { DisplacedJobs } from '../../fleet/rpc.ts';
import { MACHINE_TAKEN } from '../attempts/end.ts';
import type { JobEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import type { Core } from '../state/state.ts';

/** The most jobs that have left a worker and have no other one yet; beyond it the oldest are not counted. */
const MOST_LEFT = 10_000;

/**
 * Counts the jobs that other workers took over from one that is gone or whose machine is being taken away, by that
 * worker, until the fleet object takes the counts. They are in memory alone.
 */
export class Displaced implements Projection {
  readonly #workers: Core['workers'];
  /** The worker that each job has left, by the job's id. */
  readonly #left = new Map<string, string>();
  #counts: Record<string, DisplacedJobs> = {};

  constructor({ workers }: Pick<Core, 'workers'>) {
    this.#workers = workers;
  }

  on({ job, step, detail, isFirst }: JobEvent): void {
    switch (step) {
      case 'submitted':
        // The gateway asks again for a request whose worker failed.
        if (job.mode === 'waiting') this.#leaves(job.id, job.failed_at.at(-1) ?? null);
        return;
      case 'returned':
        // Another process may have registered under the name of the worker whose machine was taken away.
        return this.#leaves(job.id, job.worker_id, detail === MACHINE_TAKEN);
      case 'released':
      case 'lease_expired':
      case 'attempt_failed':
        return this.#leaves(job.id, job.worker_id);
      case 'moved':
        return this.#count(job.id, 'moved');
      case 'dispatched':
        return isFirst ? undefined : this.#count(job.id, 'repeated');
      case 'settled':
      case 'cancelled':
      case 'expired':
        this.#left.delete(job.id);
    }
  }

  /** Takes the counts since the last call, by worker. */
  take(): Record<string, DisplacedJobs> {
    const counts = this.#counts;
    this.#counts = {};
    return counts;
  }

  #leaves(jobId: string, workerId: string | null, isGone = false): void {
    if (workerId === null) return;
    const worker = this.#workers.byId(workerId);
    if (!isGone && worker && !worker.session.preempted) return;
    this.#left.set(jobId, workerId);
    const [oldest] = this.#left.keys();
    if (this.#left.size > MOST_LEFT && oldest !== undefined) this.#left.delete(oldest);
  }

  #count(jobId: string, as: keyof DisplacedJobs): void {
    const workerId = this.#left.get(jobId);
    if (workerId === undefined) return;
    this.#left.delete(jobId);
    const known = this.#counts[workerId] ?? { moved: 0, repeated: 0 };
    this.#counts[workerId] = { ...known, [as]: known[as] + 1 };
  }
}
