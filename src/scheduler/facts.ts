/** What the fleet object tells the scheduler of workers and queue. Times are epoch ms. */
export interface FleetFacts {
  /** Whether all of the queue's numbers are known: it has reported them since the object started, and still answers. */
  isKnown: boolean;
  /** By pool id; one that the queue does not mention has nothing. */
  pools: ReadonlyMap<string, PoolFacts>;
  /** By name, which is their id. */
  workers: ReadonlyMap<string, WorkerFacts>;
}

export interface WorkerFacts {
  /** Its connection to the queue; null: there is none. */
  session: SessionFacts | null;
  /** Of its newest heartbeat; null: it has sent none. */
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
  /** Jobs that wait, lines of batches included. */
  waiting: number;
  running: number;
  /** Lines of batches that wait at the queue: jobs that give way to all others. */
  waiting_in_background: number;
  submitted: number;
  submitted_in_background: number;
  ended: number;
}

export interface HeartbeatFacts {
  phase: string | null;
  progress: number | null;
  tokens_per_second: number | null;
  /** When its start last advanced: a new phase, or more progress in one. */
  progressed_at: number;
}

/** What other objects have answered this time; null: they did not, and no decision depends on it. */
export interface Answers {
  /** By the cordon: jobs that each of these workers still holds. */
  cordoned: Record<string, number> | null;
  /** Lines of batches, by the pool that they are for. */
  backlog: ReadonlyMap<string, BacklogFacts> | null;
}

export interface BacklogFacts {
  batches: { lines: number; ends_at: number }[];
  /** Lines that the queue has, waiting or running. */
  in_queue: number;
}
