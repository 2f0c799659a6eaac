import { migrate } from '../durable/migrate.ts';
import type { Parsed, WorkerFrame } from '../protocol/index.ts';
import { ClockWatch, followClockBack } from './attempts/clock.ts';
import { loseConnection } from './attempts/lost-connection.ts';
import { Standstill } from './attempts/standstill.ts';
import { dispatch } from './dispatch/dispatch.ts';
import { countDecided } from './events/counts.ts';
import { endLostSessions, handOverWorkers } from './events/fleet-events.ts';
import { Files } from './files.ts';
import { Frames } from './frames.ts';
import { Jobs } from './jobs.ts';
import { Lines } from './lines.ts';
import { Numbers } from './numbers.ts';
import type {
  HeardAnswer,
  QueueStatus,
  RequestAnswer,
  RetryAnswer,
  SessionView,
  SubmitAnswer,
  Unserved,
  UsageSum,
  UsageWanted,
  Viewer,
  WaitingRequest,
} from './rpc.ts';
import { completeSettings, type GivenSettings } from './settings.ts';
import { sessions, status } from './state/fleet-views.ts';
import { type Core, createCore } from './state/state.ts';
import type { Webhooks } from './state/webhooks.ts';
import { type Deletion, takeDeletions } from './store/blob-table.ts';
import { nextDue } from './store/jobs-table.ts';
import { MIGRATIONS } from './store/migrations.ts';
import type { Connection, Ports } from './store/ports.ts';
import { sumUsage } from './store/usage-table.ts';
import { nextRejection, rejectOverdue, waitOrReject } from './verbs/admission.ts';
import { cancel } from './verbs/cancel.ts';
import { cordon } from './verbs/cordon.ts';
import { expire, expireInMemory } from './verbs/expire.ts';
import { purge } from './verbs/purge.ts';
import { request } from './verbs/request.ts';
import { orphanAfterRestart, restoreFleet } from './verbs/restore.ts';
import { retry } from './verbs/retry.ts';
import { type NewJob, submit, submitAndListen } from './verbs/submit.ts';
import { webhookBody } from './verbs/webhook-body.ts';

/** While callers wait, the object looks around this often, ms; it also keeps it from being evicted. */
const TICK_MS = 2000;

/** Of an answer about usage: more must be asked for in parts. */
const MOST_USAGE_ROWS = 10_000;

/**
 * One queue: its verbs behind one door. Every method is synchronous, so that what it writes is one commit;
 * the caller holds replies back until that commit is on disk. No verb dispatches: each ends with one dispatch
 * pass over what it freed or made ready.
 */
export class Queue {
  readonly #core: Core;
  readonly frames: Frames;
  /** Payloads and results that go by reference. */
  readonly files: Files;
  readonly jobs: Jobs;
  readonly numbers: Numbers;
  /** Callers that wait for a slot, and what is done to get them one. */
  readonly lines: Lines;
  readonly #standstill: Standstill;
  /** For the object around it: it must be reset when its clock stands still. */
  readonly clock: ClockWatch;
  #isLeaving = false;

  constructor(ports: Ports, settings: GivenSettings) {
    migrate(ports.sql, MIGRATIONS);
    this.#core = createCore(ports, completeSettings(settings));
    this.frames = new Frames(this.#core);
    this.files = new Files(this.#core);
    this.jobs = new Jobs(this.#core);
    this.numbers = new Numbers(this.#core);
    this.lines = new Lines(this.#core);
    followClockBack(this.#core);
    restoreFleet(this.#core);
    endLostSessions(this.#core);
    handOverWorkers(this.#core);
    orphanAfterRestart(this.#core);
    this.#standstill = new Standstill(this.#core);
    this.clock = new ClockWatch(this.#core);
    this.#standstill.mayJudge(nextDue(ports.sql));
  }

  submit(jobs: readonly NewJob[], ids: readonly string[]): (SubmitAnswer | Unserved)[] {
    return this.#do(() => submit(this.#core, jobs, ids)).map((answer) => answer());
  }

  /** @param listener hears when they settle */
  submitAndListen(
    jobs: readonly NewJob[],
    ids: readonly string[],
    listener: string,
  ): (HeardAnswer | Unserved)[] {
    return this.#do(() => submitAndListen(this.#core, jobs, ids, listener));
  }

  request(asked: WaitingRequest, answer: (answer: RequestAnswer | Unserved) => void): void {
    this.#do(() => request(this.#core, asked, answer));
  }

  /** Posts of settlements that are to be sent now; `Webhooks` says what becomes of each. */
  get webhooks(): Webhooks {
    return this.#core.stored.webhooks;
  }

  /** What a settlement's post says; null: its job is forgotten. */
  webhookBody(jobId: string): string | null {
    return webhookBody(this.#core, jobId);
  }

  retry(jobId: string, viewer: Viewer = null): RetryAnswer | null {
    return this.#do(() => retry(this.#core, jobId, viewer));
  }

  /** Cancels what waits, so many at a time. @returns how many; 0: none is left */
  purge(configId: string, viewer: Viewer = null): number {
    return this.#do(() => purge(this.#core, configId, viewer));
  }

  cancel(
    jobId: string,
    reason: 'cancelled' | 'caller_gone',
    viewer: Viewer = null,
  ): ReturnType<typeof cancel> {
    return this.#do(() => cancel(this.#core, jobId, reason, viewer));
  }

  /** Once all work of a commit is done: what is to be written with it. */
  beforeCommit(): void {
    this.#core.usage.beforeCommit();
    this.#core.counts.beforeCommit();
  }

  /** These workers and no others get no more jobs. @returns jobs that each of them holds */
  cordon(workerIds: readonly string[]): Record<string, number> {
    return this.#do(() => cordon(this.#core, workerIds));
  }

  sessions(): SessionView[] {
    return sessions(this.#core);
  }

  hasSession(workerId: string, sessionId: string): boolean {
    return this.#core.fleet.byId(workerId)?.session.session_id === sessionId;
  }

  /** @param configId whose jobs are counted by how they stand */
  status(configId?: string): QueueStatus {
    return status(this.#core, configId);
  }

  /**
   * One frame from a worker.
   * @param newSessionId used if the frame registers the connection
   */
  onFrame(connection: Connection, frame: Parsed<WorkerFrame>, newSessionId: string): void {
    this.#do(() => this.frames.hear(connection, frame, newSessionId));
  }

  onClose(connection: Connection): void {
    if (!this.#isLeaving) this.#do(() => loseConnection(this.#core, connection, 'the connection closed'));
  }

  /** This process is about to end: a socket that closes from now on says nothing of its worker. */
  leave(): void {
    this.#isLeaving = true;
    this.#core.stored.listeners.endAll();
  }

  /**
   * @param setFor epoch ms; null: not known any more
   * @returns what is to be deleted from the bucket
   */
  onAlarm(setFor: number | null): Deletion {
    const core = this.#core;
    const due = nextDue(core.sql);
    const dueAt = due === null ? null : Math.min(due, setFor ?? due);
    if (this.#standstill.mayJudge(dueAt)) return this.#do(() => expire(core));
    core.alarm.set(this.#standstill.judgesFrom);
    return takeDeletions(core);
  }

  /**
   * What only memory knows of: waits and deadlines that are over, workers that are not heard or did not come back.
   * @param dueAt epoch ms, as `nextTick` said
   */
  onTick(dueAt: number): void {
    const core = this.#core;
    if (!this.#standstill.mayJudge(dueAt)) return;
    this.#do(() => {
      if (this.isWriteDue) core.usage.write();
      rejectOverdue(core);
      expireInMemory(core);
      const { waiters, followers, settlements } = core.stored;
      settlements.expire(core.now());
      for (const listening of [waiters, followers]) {
        listening.expire(core.now(), (jobId) => this.jobs.get(jobId));
      }
      core.stored.listeners.expire();
      countDecided(core);
    });
  }

  /** What is to be written with the next commit or, now, with one of its own. */
  get isWriteDue(): boolean {
    const { usage, counts, now } = this.#core;
    return [usage.dueAt, counts.dueAt].some((at) => at !== null && at <= now());
  }

  /** In a commit. */
  writeUsage(): void {
    this.#core.usage.write();
  }

  /** In a commit: with all that was used until now. */
  usage(wanted: UsageWanted): UsageSum[] {
    this.#core.usage.write();
    return sumUsage(this.#core.sql, wanted, MOST_USAGE_ROWS);
  }

  /** Epoch ms at which `onTick` wants to run; null: nothing is kept in memory. Asked after every event. */
  nextTick(): number | null {
    const { memory, stored, now } = this.#core;
    const times = [
      this.#core.counts.dueAt,
      this.#core.undecided.soonest,
      nextRejection(this.#core),
      stored.waiters.soonest,
      stored.followers.soonest,
      stored.listeners.soonest,
      stored.settlements.soonest,
      this.#core.usage.dueAt,
      memory.size > 0 ? Math.min(now() + TICK_MS, memory.nextLimit) : null,
    ];
    const next = times.reduce(
      (next, time) => (next === null || (time !== null && time < next) ? time : next),
      null,
    );
    return next === null ? null : Math.max(next, this.#standstill.judgesFrom);
  }

  /** One verb, and the dispatch pass that ends it. */
  #do<T>(verb: () => T): T {
    this.#standstill.eventCame();
    const answer = verb();
    for (const job of dispatch(this.#core)) waitOrReject(this.#core, job);
    this.#core.stored.writeNew();
    this.#core.stored.settlements.tell();
    return answer;
  }
}
