import type { QueueTells } from '../fleet/rpc.ts';
import type { Asked, OFFERED_COMMANDS, OFFERED_VIEWS, Table } from './calls.ts';
import type {
  FollowedJob,
  HeardAnswer,
  QueueMetrics,
  SettledJobs,
  SubmitAnswer,
  SubmitJob,
  ToldJob,
  Unserved,
  Viewer,
} from './rpc.ts';

/**
 * What others may ask of a queue object, beside a worker for a caller that waits (asking/objects.ts). Arguments and
 * answers are plain data. Nothing here throws for a caller's mistake: mistakes are answers.
 */
export interface QueueRpc extends Offered, OwnCalls {}

/** The calls of the tables that the object hands on as they are. */
export type Offered = Methods<typeof OFFERED_VIEWS> & Methods<typeof OFFERED_COMMANDS>;

type Methods<Calls extends Table> = {
  [Name in keyof Calls]: (...asked: Asked<Calls, Name>) => Promise<ReturnType<Calls[Name]>>;
};

/** The calls that the object does more for than to hand them on. */
interface OwnCalls {
  /** Persisted jobs, all in one commit; answers stand in the order of the jobs. */
  submit(jobs: SubmitJob[]): Promise<(SubmitAnswer | Unserved)[]>;
  /** @param listener hears when they settle (`nextSettled`) */
  submitAndListen(jobs: SubmitJob[], listener: string): Promise<(HeardAnswer | Unserved)[]>;
  /** Answers as soon as the job is settled, or after `waitMs` with how it stands then. */
  wait(jobId: string, waitMs: number, viewer: Viewer): Promise<ToldJob | null>;
  /**
   * Answers as soon as the job is settled or has an attempt newer than `fence`, or after `waitMs` with how it stands
   * then.
   * @param fence of the newest attempt that is known; 0: none
   */
  follow(jobId: string, fence: number, waitMs: number, viewer: Viewer): Promise<FollowedJob | null>;
  /** Listens for jobs by id. @returns ids under which there is no job, or none to this viewer */
  listen(listener: string, jobIds: string[], viewer: Viewer): Promise<string[]>;
  /** Answers as soon as jobs that the listener listens for have settled, or with none after `waitMs`. */
  nextSettled(listener: string, waitMs: number): Promise<SettledJobs>;
  /** The listener is gone. */
  leaveListener(listener: string): Promise<void>;
  /** Reports all news to the fleet object, or everything again; resolves when the fleet object has it. */
  tellFleet(everything?: boolean): Promise<void>;
  /** As `QueueTells` says. */
  cordon: QueueTells['cordon'];
  /** All its numbers, for machines. */
  metrics(): Promise<QueueMetrics>;
  /** Closes every socket with 1012 so that workers reconnect at once: the process is about to end. */
  closeSockets(): Promise<void>;
}
