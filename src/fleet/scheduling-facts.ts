import type { FleetFacts, HeartbeatFacts, PoolFacts, SessionFacts } from '../scheduler/facts.ts';
import type { KnownWorker, PoolShare } from './rpc.ts';

interface Progress {
  phase: string | null;
  progress: number;
  at: number;
}

/** What the scheduler is told of workers and queue, out of what the fleet object knows of them. */
export class SchedulingFacts {
  /** By worker id: how far its start had come, and since when. */
  readonly #progress = new Map<string, Progress>();

  of(workers: Iterable<KnownWorker>, shares: Iterable<PoolShare>, isKnown: boolean): FleetFacts {
    const sessions: SessionFacts[] = [];
    const heartbeats = new Map<string, HeartbeatFacts>();
    for (const worker of workers) {
      if (worker.session) sessions.push(worker.session);
      const { worker_id, heartbeat, heartbeat_at } = worker;
      if (!heartbeat || heartbeat_at === null) continue;
      const { phase = null, progress = null, tokens_per_second = null } = heartbeat;
      const progressed_at = this.#moved(worker_id, { phase, progress: progress ?? 0, at: heartbeat_at });
      heartbeats.set(worker_id, { phase, progress, tokens_per_second, progressed_at });
    }
    for (const id of this.#progress.keys()) if (!heartbeats.has(id)) this.#progress.delete(id);
    const pools = new Map([...shares].map((share) => [share.config_id, poolFacts(share)]));
    return { isKnown, sessions, pools, heartbeats };
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
