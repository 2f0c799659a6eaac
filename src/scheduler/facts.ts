/** The facts that the fleet object gives the scheduler about workers and queue. Times are epoch ms. */
export interface FleetFacts {
  /** Whether all of the queue's numbers are known: it has reported them since the object started, and still answers. */
  isKnown: boolean;
  /** Facts by pool id; a pool that the queue does not mention has no work. */
  pools: ReadonlyMap<string, PoolFacts>;
  /** Facts of workers by name, which is their id. */
  workers: ReadonlyMap<string, WorkerFacts>;
}

export interface WorkerFacts {
  /** The worker's connection to the queue; null where it has none. */
  session: SessionFacts | null;
  /** The worker's newest heartbeat; null where it has sent none. */
  heartbeat: HeartbeatFacts | null;
}

export interface SessionFacts {
  worker_id: string;
  config_id: string;
  state: 'ready' | 'paused' | 'draining';
  capacity: number;
  running: number;
  connected_at: number;
}

export interface PoolFacts {
  /** The number of waiting jobs, lines of batches included. */
  waiting: number;
  running: number;
  /** The number of lines of batches that wait at the queue: jobs that give way to all others. */
  waiting_in_background: number;
  submitted: number;
  submitted_in_background: number;
  ended: number;
}

export interface HeartbeatFacts {
  phase: string | null;
  progress: number | null;
  tokens_per_second: number | null;
  /** When the worker's start last advanced: a new phase, or more progress in one. */
  progressed_at: number;
}

/** The answers of other objects this time; null where one did not answer, and then no decision depends on it. */
export interface Answers {
  /** The number of jobs that each cordoned worker still holds. */
  cordoned: Record<string, number> | null;
  /** Lines of batches, by the pool that they are for. */
  backlog: ReadonlyMap<string, BacklogFacts> | null;
}

export interface BacklogFacts {
  batches: { lines: number; ends_at: number }[];
  /** The number of lines that the queue has, waiting or running. */
  in_queue: number;
}
