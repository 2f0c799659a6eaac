import type { FleetFacts, PoolFacts } from '../../src/scheduler/facts.ts';

export interface Job {
  config_id: string;
  /** s */
  takes: number;
}

export interface Session {
  worker_id: string;
  config_id: string;
  machine_id: string;
  /** 0: its engine is not healthy yet. */
  slots: number;
  connected_at: number;
  /** With when each ends, epoch ms. */
  running: { job: Job; ends_at: number }[];
}

const ZERO: PoolFacts = {
  waiting: 0,
  running: 0,
  waiting_in_background: 0,
  submitted: 0,
  submitted_in_background: 0,
  ended: 0,
};

/**
 * As much of a queue as the scheduler sees: jobs in their order to the least busy worker, none to those that are
 * cordoned; a worker that is lost gives its jobs back.
 */
export class QueueModel {
  readonly sessions = new Map<string, Session>();
  readonly #waiting = new Map<string, Job[]>();
  readonly #counts = new Map<string, { submitted: number; ended: number }>();
  #cordoned = new Set<string>();
  #told: FleetFacts = { isKnown: false, sessions: [], pools: new Map(), heartbeats: new Map() };
  /** It answers nobody. */
  isSilent = false;

  submit(job: Job): void {
    this.#jobs(job.config_id).push(job);
    this.#count(job.config_id).submitted += 1;
  }

  waiting(configId: string): number {
    return this.#jobs(configId).length;
  }

  /** Jobs of a pool that wait or run. */
  inSystem(configId: string): number {
    const sessions = [...this.sessions.values()].filter(({ config_id }) => config_id === configId);
    return sessions.reduce((sum, { running }) => sum + running.length, this.waiting(configId));
  }

  running(workerId: string): number {
    return this.sessions.get(workerId)?.running.length ?? 0;
  }

  isServed(configId: string): boolean {
    return [...this.sessions.values()].some(
      (session) =>
        session.config_id === configId && session.slots > 0 && !this.#cordoned.has(session.worker_id),
    );
  }

  connect(session: Omit<Session, 'running'>): void {
    this.sessions.set(session.worker_id, { ...session, running: [] });
  }

  /** Its jobs wait again, before all others. */
  disconnect(workerId: string): void {
    const session = this.sessions.get(workerId);
    if (!session) return;
    this.sessions.delete(workerId);
    for (const { job } of session.running) this.#jobs(job.config_id).unshift(job);
  }

  /** @throws Error when it is silent */
  cordon(workerIds: string[]): Record<string, number> {
    if (this.isSilent) throw new Error('the queue does not answer');
    this.#cordoned = new Set(workerIds);
    return Object.fromEntries(workerIds.map((id) => [id, this.running(id)]));
  }

  /** What has ended by now, what begins, and what the scheduler is told of it. */
  pass(now: number): void {
    for (const session of this.sessions.values()) {
      const left = session.running.filter(({ ends_at }) => ends_at > now);
      this.#count(session.config_id).ended += session.running.length - left.length;
      session.running = left;
    }
    for (const configId of this.#waiting.keys()) this.#dispatch(configId, now);
    if (!this.isSilent) this.#told = this.#tell(now);
  }

  facts(): FleetFacts {
    return this.isSilent ? { ...this.#told, isKnown: false } : this.#told;
  }

  #dispatch(configId: string, now: number): void {
    const jobs = this.#jobs(configId);
    while (jobs.length > 0) {
      const free = [...this.sessions.values()]
        .filter((session) => session.config_id === configId && session.running.length < session.slots)
        .filter(({ worker_id }) => !this.#cordoned.has(worker_id))
        .sort((one, other) => one.running.length - other.running.length)[0];
      if (!free) return;
      const job = jobs.shift()!;
      free.running.push({ job, ends_at: now + job.takes * 1000 });
    }
  }

  #tell(now: number): FleetFacts {
    const sessions = [...this.sessions.values()];
    const pools = new Map<string, PoolFacts>();
    for (const [id, { submitted, ended }] of this.#counts) {
      const running = sessions
        .filter(({ config_id }) => config_id === id)
        .reduce((sum, session) => sum + session.running.length, 0);
      pools.set(id, { ...ZERO, waiting: this.waiting(id), running, submitted, ended });
    }
    return {
      isKnown: true,
      pools,
      sessions: sessions.map(({ worker_id, config_id, slots, running, connected_at }) => ({
        worker_id,
        config_id,
        state: 'ready',
        capacity: slots,
        running: running.length,
        connected_at,
      })),
      heartbeats: new Map(
        sessions.map(({ worker_id, running }) => [
          worker_id,
          { phase: null, progress: null, tokens_per_second: running.length * 40, progressed_at: now },
        ]),
      ),
    };
  }

  #jobs(configId: string): Job[] {
    const jobs = this.#waiting.get(configId) ?? [];
    this.#waiting.set(configId, jobs);
    return jobs;
  }

  #count(configId: string): { submitted: number; ended: number } {
    const counts = this.#counts.get(configId) ?? { submitted: 0, ended: 0 };
    this.#counts.set(configId, counts);
    return counts;
  }
}
