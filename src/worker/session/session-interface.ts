import type { Ack, Job, JobRef, QueueProfile, Registered, Renewed } from '../../protocol/index.ts';
import type { Peer } from './peer.ts';
import type { SessionState } from './session-state.ts';

export interface SessionSettings {
  wsUrl: string;
  token: string | undefined;
  queueId: string;
  configId: string;
  workerId: string;
  capacity: number;
  /** What is known of a queue that answers `register`; left out: the same as of our queue. */
  queueProfile?: QueueProfile | undefined;
}

export interface SessionEvents {
  stateChanged(state: SessionState): void;
  /** Called when frames may be sent from now on; `registered` is null with a base queue. */
  connected(peer: Peer, registered: Registered | null): void;
  job(job: Job): void;
  revoked(jobId: string, reason: string): void;
  acknowledged(ack: Ack): void;
  renewed(renewed: Renewed): void;
  /** Called when the queue denies this worker for good; the session has failed. */
  denied(message: string): void;
  /** Returns the jobs that run, or are finished and not acknowledged. */
  heldJobs(): (JobRef & { account?: string })[];
  /**
   * Tells whether results of an earlier process wait for an extended queue, so that the session need not wait for the
   * engine.
   */
  hasEarlyResults(): boolean;
}
