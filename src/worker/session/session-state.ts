import type { Ack, Job, JobRef, QueueProfile, Registered, Renewed } from '../../protocol/index.ts';
import type { Peer } from './peer.ts';

/**
 * The state of the session with the queue.
 *
 * - `starting`   → `connecting` (start)
 * - `connecting` → `ready` (engine healthy, queue has answered), `paused` (connected, engine not healthy)
 * - `ready`      → `paused` (engine unhealthy), `connecting` (socket lost)
 * - `paused`     → `ready` (engine healthy again), `connecting` (socket lost, or slots offered for the first time)
 * - any of these → `draining` (no more jobs, for good; the socket may come and go for what is unfinished)
 * - any but `failed` → `stopped` (closed by us), `failed` (the queue denies this worker)
 * - `stopped` and `failed` are final.
 */
export type SessionState = 'starting' | 'connecting' | 'ready' | 'paused' | 'draining' | 'stopped' | 'failed';

const LIVE = ['starting', 'connecting', 'ready', 'paused', 'draining'] as const;

/** The states from which each state may be entered. */
export const COMES_FROM: Record<SessionState, readonly SessionState[]> = {
  starting: [],
  connecting: ['starting', 'ready', 'paused'],
  ready: ['connecting', 'paused'],
  paused: ['connecting', 'ready'],
  draining: ['starting', 'connecting', 'ready', 'paused'],
  stopped: LIVE,
  failed: LIVE,
};

/** The reasons why the session's loop runs again; each wake is logged with its reason. */
export const WAKE = {
  started: 'started',
  socketOpened: 'the socket opened',
  socketClosed: 'the socket closed',
  registered: 'the queue answered register',
  jobBeforeAnswer: 'a job came before an answer to register: a base queue',
  noAnswer: 'no answer to register: a base queue',
  engineHealthy: 'the engine is healthy',
  engineUnhealthy: 'the engine is unhealthy',
  pressureChanged: 'the pressure on the engine changed',
  resultsFound: 'results of an earlier process were read',
  drainAsked: 'drain was asked for',
} as const;
export type WakeReason = (typeof WAKE)[keyof typeof WAKE];

export interface SessionSettings {
  wsUrl: string;
  token: string | undefined;
  queueId: string;
  configId: string;
  workerId: string;
  capacity: number;
  /** The profile of a queue that answers `register`; left out: that of our own queue. */
  queueProfile?: QueueProfile | undefined;
}

export interface SessionEvents {
  stateChanged(state: SessionState): void;
  /** Called when frames may be sent; `registered` is null with a base queue. */
  connected(peer: Peer, registered: Registered | null): void;
  job(job: Job): void;
  revoked(jobId: string, reason: string): void;
  acknowledged(ack: Ack): void;
  renewed(renewed: Renewed): void;
  /** Called when the queue denies this worker for good; the session has then failed. */
  denied(message: string): void;
  /** Returns the jobs that run, or are finished and not acknowledged. */
  heldJobs(): (JobRef & { account?: string })[];
  /**
   * Tells whether results of an earlier process wait for an extended queue, so that the session need not wait for the
   * engine.
   */
  hasEarlyResults(): boolean;
}
