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
  /** What the queue is like that answers `register`; left out: as ours. */
  queueProfile?: QueueProfile | undefined;
}

export interface SessionEvents {
  stateChanged(state: SessionState): void;
  /** Frames may be sent from now on; `registered` is null with a base queue. */
  connected(peer: Peer, registered: Registered | null): void;
  job(job: Job): void;
  revoked(jobId: string, reason: string): void;
  acknowledged(ack: Ack): void;
  renewed(renewed: Renewed): void;
  /** The queue denies this worker for good; the session has failed. */
  denied(message: string): void;
  /** Running, or finished and not acknowledged. */
  heldJobs(): (JobRef & { account?: string })[];
  /** Results of an earlier process wait for an extended queue: no reason to wait for the engine. */
  hasEarlyResults(): boolean;
}
