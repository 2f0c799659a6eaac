import type { JobView } from '../protocol/index.ts';

/** The calls with which an object learns which of its jobs have settled. */
export interface SettledJobs {
  /**
   * Starts listening anew, for no job yet. The queue forgets earlier listening, and answers the question that this
   * object had open before a restart, which would otherwise receive what settles from now on.
   */
  listenAnew(): Promise<void>;
  /** Listens for jobs that were submitted before. @returns the ids that belong to no job */
  listen(jobIds: string[]): Promise<string[]>;
  /**
   * Returns the jobs that have settled, as soon as there is one, or none after `waitMs`; null if the queue has
   * restarted since `listenAnew`. One whose result is lost is shown as failed; one whose result cannot be read now comes
   * with a later answer.
   */
  nextSettled(waitMs: number): Promise<JobView[] | null>;
}
