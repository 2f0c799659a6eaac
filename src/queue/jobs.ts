import type { JobView } from '../protocol/index.ts';
import { ledgerOf } from './events/ledger.ts';
import { recentLedgerOf } from './events/recent-ledger.ts';
import type {
  FollowedJob,
  JobListWanted,
  JobPage,
  LedgerView,
  OutputCursor,
  SettledJobs,
  SettlementsAnswer,
  SettlementsWanted,
  Viewer,
} from './rpc.ts';
import { liveAnswerOf } from './state/fences.ts';
import type { Core } from './state/state.ts';
import { readOutputCursor } from './store/output-cursor.ts';
import { list } from './verbs/list.ts';
import { listen, nextSettled } from './verbs/listen.ts';
import { settlements } from './verbs/settlements.ts';
import { takeOutput } from './verbs/take-output.ts';
import { follow, get, wait } from './verbs/wait.ts';

/** What callers read of jobs, or wait for. None of this frees a slot or makes a job ready. */
export class Jobs {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** @param viewer to whom another tenant's job does not exist */
  get(jobId: string, viewer: Viewer = null): JobView | null {
    return get(this.#core, jobId, viewer);
  }

  /** Null: no such job is stored, nor among the newest of those whose caller waited. */
  ledger(jobId: string, viewer: Viewer = null): LedgerView | null {
    return ledgerOf(this.#core, jobId, viewer) ?? recentLedgerOf(this.#core, jobId, viewer);
  }

  list(wanted: JobListWanted): JobPage {
    return list(this.#core, wanted);
  }

  settlements(wanted: SettlementsWanted, answer: (answer: SettlementsAnswer) => void): void {
    settlements(this.#core, wanted, answer);
  }

  /** Answers when the job settles, at once when it has, and with what there is after `waitMs`. */
  wait(jobId: string, waitMs: number, answer: (view: JobView | null) => void, viewer: Viewer = null): void {
    wait(this.#core, jobId, waitMs, answer, viewer);
  }

  /**
   * Answers when the job is given to a worker anew or settles, at once when either has happened since the attempt
   * `fence`, and with what there is after `waitMs`.
   * @param fence of the newest attempt that is known; 0: none
   */
  follow(
    jobId: string,
    fence: number,
    waitMs: number,
    answer: (view: JobView | null) => void,
    viewer: Viewer = null,
  ): void {
    follow(this.#core, jobId, fence, waitMs, answer, viewer);
  }

  /** Listens for jobs by id. @returns ids under which there is no job, or none to this viewer */
  listen(listener: string, jobIds: readonly string[], viewer: Viewer): string[] {
    return listen(this.#core, listener, jobIds, viewer);
  }

  /** Answers with what has settled for the listener, by `answerListeners`, at the latest after `waitMs`. */
  nextSettled(listener: string, waitMs: number, answer: (settled: SettledJobs) => void): void {
    nextSettled(this.#core, listener, waitMs, answer);
  }

  leaveListener(listener: string): void {
    this.#core.stored.listeners.leave(listener);
  }

  /** After every commit: one answer tells of all that settled in it. */
  answerListeners(): void {
    this.#core.stored.listeners.answerAll();
  }

  /** Where the output of a job can be read while it is made, and how much of it was taken. */
  outputOf(job: JobView): Pick<FollowedJob, 'live' | 'cursor'> {
    const live = liveAnswerOf(this.#core.settings.queue_id, job);
    return { live, cursor: readOutputCursor(this.#core.sql, job.id) };
  }

  takeOutput(jobId: string, from: OutputCursor, to: OutputCursor, viewer: Viewer = null): boolean {
    return takeOutput(this.#core, jobId, from, to, viewer);
  }
}
