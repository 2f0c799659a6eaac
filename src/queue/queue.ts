import type { Asked } from '../durable/calls.ts';
import { createTables } from '../durable/ports.ts';
import type { DisplacedJobs } from '../fleet/rpc.ts';
import { bounds, type Parsed, type RequestRecord, type WorkerFrame } from '../protocol/index.ts';
import { completeSettings, type GivenSettings } from '../settings/queue-settings.ts';
import type { WebhookOutbox } from '../webhooks/outbox.ts';
import { loseConnection } from './attempts/connection.ts';
import { COMMANDS, VIEWS, WAITS } from './calls.ts';
import {
  awaitEarlierRequests,
  followClockBack,
  noteTime,
  orphanAfterRestart,
  restoreFleet,
  Standstill,
} from './commands/downtime.ts';
import { decideRequests, expire, expireInMemory } from './commands/expire.ts';
import { submit } from './commands/submit.ts';
import { ALIASED_JOBS } from './dispatch/aliased-jobs.ts';
import { dispatch } from './dispatch/dispatch.ts';
import { takeWhatWasLeft } from './dispatch/fair-order.ts';
import { SCORERS } from './dispatch/scorers.ts';
import { endLostSessions } from './events/fleet-events.ts';
import { sooner } from './events/projection.ts';
import { Frames } from './frames.ts';
import { Displaced } from './projections/displaced.ts';
import { FailedAttempts } from './projections/failed-attempts.ts';
import { Listeners } from './projections/listeners.ts';
import { registerProjections } from './projections/register.ts';
import { RequestRecords } from './projections/request-records.ts';
import { UsageBook } from './projections/usage-book.ts';
import { Webhooks } from './projections/webhooks.ts';
import type { SubmitAnswer, SubmitJob, Unserved } from './rpc.ts';
import { type Core, createCore, type Timed } from './state/state.ts';
import { nextDue } from './store/jobs-table.ts';
import type { Connection, Ports } from './store/ports.ts';
import { QUEUE_TABLE_STEPS, QUEUE_TABLES } from './store/tables.ts';
import { admitHeld, nextRejection, rejectOverdue, waitOrReject } from './waiting.ts';

/**
 * Runs one queue: its calls (calls.ts) by name, and the events of its object. Every method is synchronous, so that its
 * writes are one commit; the object holds replies back until that commit is on disk. No command dispatches: one
 * dispatch pass follows it, over the slots that it freed and the jobs that it made ready.
 */
export class Queue {
  readonly #core: Core;
  readonly frames: Frames;
  readonly #listeners: Listeners;
  readonly #standstill: Standstill;
  #isLeaving = false;

  constructor(ports: Ports, settings: GivenSettings) {
    createTables(ports.sql, QUEUE_TABLES, QUEUE_TABLE_STEPS);
    this.#core = createCore(ports, completeSettings(settings));
    registerProjections(this.#core);
    this.#listeners = this.#core.projections.get(Listeners);
    this.frames = new Frames(this.#core);
    followClockBack(this.#core);
    restoreFleet(this.#core);
    endLostSessions(this.#core);
    orphanAfterRestart(this.#core);
    awaitEarlierRequests(this.#core);
    this.#standstill = new Standstill(this.#core);
    this.#standstill.mayJudge(nextDue(ports.sql));
  }

  /** Stores jobs. This is the one command whose answers tell what its dispatch pass did. */
  submit(jobs: readonly SubmitJob[], ids: readonly string[]): (SubmitAnswer | Unserved)[] {
    return this.#do(() => submit(this.#core, jobs, ids)).map((answer) => answer());
  }

  /** Makes a call that changes the queue, then the dispatch pass that ends the call. */
  do<Name extends keyof typeof COMMANDS>(
    name: Name,
    ...asked: Asked<(typeof COMMANDS)[Name]>
  ): ReturnType<(typeof COMMANDS)[Name]> {
    return this.#do(() => call(this.#core, COMMANDS[name], asked));
  }

  /** Makes a call that changes nothing. */
  read<Name extends keyof typeof VIEWS>(
    name: Name,
    ...asked: Asked<(typeof VIEWS)[Name]>
  ): ReturnType<(typeof VIEWS)[Name]> {
    return call(this.#core, VIEWS[name], asked);
  }

  /** Makes a call that is answered at once or later, by its last argument. */
  wait<Name extends keyof typeof WAITS>(name: Name, ...asked: Asked<(typeof WAITS)[Name]>): void {
    call(this.#core, WAITS[name], asked);
  }

  /** The webhooks that the object around the queue sends, recording the outcome of each. */
  get webhooks(): WebhookOutbox {
    return this.#core.projections.get(Webhooks).outbox;
  }

  /** Takes, for the fleet object, the requests that have ended since the last call. */
  takeEnded(): RequestRecord[] {
    return this.#core.projections.get(RequestRecords).take();
  }

  /** Takes the numbers of attempts that failed through a worker's fault since the last call, by worker. */
  takeFailed(): Record<string, number> {
    return this.#core.projections.get(FailedAttempts).take();
  }

  /** Takes what became of the jobs that workers could not finish since the last call, by worker. */
  takeDisplaced(): Record<string, DisplacedJobs> {
    return this.#core.projections.get(Displaced).take();
  }

  /** Writes counts that belong into the commit, once all its other work is done. */
  beforeCommit(): void {
    this.#core.projections.beforeCommit();
  }

  /** Answers listeners after every commit: one answer tells a listener all of its jobs that settled in the commit. */
  answerListeners(): void {
    this.#listeners.answerAll();
  }

  /** Handles one frame from a worker. @param newSessionId called if the frame registers the connection */
  onFrame(connection: Connection, frame: Parsed<WorkerFrame>, newSessionId: () => string): void {
    this.#do(() => this.frames.hear(connection, frame, newSessionId));
  }

  /** @param isCutOff whether the gateway process between queue and worker is out of reach */
  onClose(connection: Connection, isCutOff = false): void {
    if (this.#isLeaving) return;
    const reason = isCutOff ? 'its gateway process is out of reach' : 'the connection closed';
    const leastGrace = isCutOff ? bounds.GATEWAY_AWAY_SECONDS : 0;
    this.#do(() => loseConnection(this.#core, connection, reason, leastGrace));
  }

  /** Prepares for the end of this process: a socket that closes from now on says nothing about its worker. */
  leave(): void {
    this.#isLeaving = true;
    this.#listeners.endAll();
  }

  /** Notes the time, since the clock was set back and another object starts. */
  clockSetBack(): void {
    noteTime(this.#core);
  }

  /**
   * Does the work of the alarm.
   * @param setFor the epoch ms that the alarm was set for; null if that is not known any more
   */
  onAlarm(setFor: number | null): void {
    const core = this.#core;
    const due = nextDue(core.sql);
    const dueAt = due === null ? null : Math.min(due, setFor ?? due);
    if (this.#standstill.mayJudge(dueAt)) this.#do(() => expire(core));
    else core.alarm.set(this.#standstill.judgesFrom);
  }

  /**
   * Does what only memory knows to be due: ends waits and deadlines that are over, and handles workers that are silent
   * or did not come back.
   * @param dueAt epoch ms, as `nextTick` returned it
   */
  onTick(dueAt: number): void {
    if (this.#standstill.mayJudge(dueAt)) this.#do(() => runDue(this.#core));
  }

  /** Says whether writes that waited for another commit now need one of their own. */
  get isWriteDue(): boolean {
    return this.#core.projections.isWriteDue(this.#core.now());
  }

  /** Writes the counted usage, within a commit. */
  writeUsage(): void {
    this.#core.projections.get(UsageBook).write();
  }

  /**
   * Returns the epoch ms at which `onTick` wants to run; null if memory holds nothing due. The object asks after every
   * event.
   */
  nextTick(): number | null {
    const next = nextTimed(this.#core);
    return next === null ? null : Math.max(next, this.#standstill.judgesFrom);
  }

  /** Runs one command, then the dispatch pass that ends it. */
  #do<T>(command: () => T): T {
    this.#standstill.eventCame();
    const answer = command();
    do {
      for (const job of dispatch(this.#core)) waitOrReject(this.#core, job);
    } while (admitHeld(this.#core));
    this.#core.stored.writeNew();
    return answer;
  }
}

/** Calls a function of a table. The methods that take its name check the types. */
function call<T>(core: Core, run: (core: Core, ...asked: never[]) => unknown, asked: readonly unknown[]): T {
  return (run as (core: Core, ...asked: readonly unknown[]) => T)(core, ...asked);
}

/**
 * The interval, ms, at which the object checks waiting jobs while callers wait; it also keeps the object from being
 * evicted.
 */
const TICK_MS = 2000;

/** All work that is due at a time that only memory knows, in the order in which it is done; leases have the alarm. */
const TIMED: readonly Timed[] = [
  { dueAt: nextRejection, run: rejectOverdue },
  {
    dueAt: ({ waiting, now }) => (waiting.size > 0 ? Math.min(now() + TICK_MS, waiting.nextLimit) : null),
    run: expireInMemory,
  },
  { dueAt: ({ ready }) => ready.looksAt, run: takeWhatWasLeft },
  ALIASED_JOBS,
  ...SCORERS.timed,
  {
    dueAt: ({ admission }) => admission.earlier.nextLost,
    run: ({ admission }) => admission.earlier.endLost(),
  },
  { dueAt: ({ requests }) => requests.nextDecided, run: decideRequests },
  { dueAt: ({ projections }) => projections.next(), run: ({ projections }) => projections.runDue() },
];

/** Returns the epoch ms at which `runDue`, a write or a dispatch pass is wanted; null if memory holds nothing due. */
function nextTimed(core: Core): number | null {
  let next = core.admission.opensAt;
  for (const { dueAt } of TIMED) next = sooner(next, dueAt(core));
  return next;
}

function runDue(core: Core): void {
  for (const { run } of TIMED) run(core);
}
