import type { Heartbeat } from '../protocol/index.ts';
import type { FleetFacts, HeartbeatFacts, PoolFacts, WorkerFacts } from '../scheduler/rule-types.ts';
import type { KnownWorker, PoolShare } from './rpc.ts';

interface Progress {
  phase: string | null;
  progress: number;
  at: number;
}

/** Makes what the scheduler has to know of workers and queue from what the fleet object knows of them. */
export class SchedulingFacts {
  /** The progress of the start of each worker, and since when it stands, by worker id. */
  readonly #progress = new Map<string, Progress>();

  of(workers: Iterable<KnownWorker>, shares: Iterable<PoolShare>, isKnown: boolean): FleetFacts {
    const facts = new Map<string, WorkerFacts>();
    for (const { worker_id, session, heartbeat, heartbeat_at: at } of workers) {
      facts.set(worker_id, {
        session,
        heartbeat: heartbeat && this.#heartbeat(worker_id, heartbeat, at ?? 0),
      });
    }
    for (const id of this.#progress.keys()) if (!facts.get(id)?.heartbeat) this.#progress.delete(id);
    const pools = new Map([...shares].map((share) => [share.config_id, poolFacts(share)]));
    return { isKnown, pools, workers: facts };
  }

  #heartbeat(workerId: string, heartbeat: Heartbeat, at: number): HeartbeatFacts {
    const { phase = null, progress = null, tokens_per_second = null } = heartbeat;
    const progressed_at = this.#moved(workerId, { phase, progress: progress ?? 0, at });
    return { phase, progress, tokens_per_second, progressed_at };
  }

  #moved(id: string, now: Progress): number {
    const before = this.#progress.get(id);
    if (before && before.phase === now.phase && before.progress >= now.progress) return before.at;
    this.#progress.set(id, now);
    return now.at;
  }
}

function poolFacts(share: PoolShare): PoolFacts {
  const { pending, running, submitted_in_background, totals, by_priority } = share;
  const background = by_priority.filter(({ priority }) => priority < 0);
  return {
    waiting: pending.waiting + pending.stored,
    running,
    waiting_in_background: background.reduce((sum, { pending: jobs }) => sum + jobs, 0),
    submitted: totals.submitted,
    submitted_in_background,
    ended: totals.succeeded + totals.failed,
  };
}
