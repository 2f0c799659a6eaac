import type { LauncherAnswer, LauncherReport } from '../../src/scheduler/rpc.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { SCHEDULER_TABLES } from '../../src/scheduler/tables.ts';
import { Disk } from '../simulation/disk.ts';
import type { Random } from '../simulation/random.ts';
import type { Timeline } from '../simulation/timeline.ts';
import type { FleetPlan } from './plan.ts';
import type { QueueModel } from './queue-model.ts';

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz0123456789'];

/**
 * The real scheduler over real SQLite, as its object hosts it: each look and each sync is one commit. It may be killed
 * before that commit, or after it and before anybody has the answer; then it starts again from its rows.
 */
export class SchedulerHost {
  readonly disk = new Disk(() => {});
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #queue: QueueModel;
  readonly #committed: () => void;
  #scheduler: Scheduler | null = null;
  #restarts = 0;
  /** Its wall clock against the true one, ms. */
  skewMs = 0;
  /** Of each look and sync. */
  deathChance = 0;

  /** @param committed hears of every commit */
  constructor(plan: FleetPlan, timeline: Timeline, random: Random, queue: QueueModel, committed: () => void) {
    this.#timeline = timeline;
    this.#random = random;
    this.#queue = queue;
    this.#committed = committed;
    for (const statement of SCHEDULER_TABLES) this.disk.exec(statement);
    this.disk.commit();
    this.#start();
    this.#scheduler?.applySpec(plan.spec, false);
    this.disk.commit();
    this.#lookAgain();
  }

  now(): number {
    return this.#timeline.now + this.skewMs;
  }

  get isUp(): boolean {
    return this.#scheduler !== null;
  }

  get scheduler(): Scheduler {
    if (!this.#scheduler) throw new Error('the scheduler does not run');
    return this.#scheduler;
  }

  /** What was not committed is gone. */
  kill(): void {
    this.disk.rollback();
    this.#scheduler = null;
    this.#restarts += 1;
    const restart = this.#restarts;
    this.#timeline.after(this.#random.wait(5000, 30_000), () => {
      if (restart === this.#restarts) this.#start();
    });
  }

  /** @throws Error when there is no answer, whatever has become of what was told */
  sync(report: LauncherReport): LauncherAnswer {
    const answer = this.#commit((scheduler) => scheduler.sync('launcher', report));
    return {
      ...answer,
      orders: answer.orders.map((order) => (order.kind === 'launch' ? { ...order, token: 'token' } : order)),
    };
  }

  #start(): void {
    const random = this.#random;
    this.#scheduler = new Scheduler({
      sql: this.disk,
      now: () => this.now(),
      randomText: (length) => Array.from({ length }, () => random.pick(LETTERS)).join(''),
      facts: () => this.#queue.facts(),
    });
    this.disk.commit();
  }

  /** As its alarm would have it. */
  #lookAgain(): void {
    if (this.#scheduler) {
      const next = this.#scheduler.nextReconcile();
      if (next !== null && this.now() >= next) this.#look();
    }
    this.#timeline.after(1000, () => this.#lookAgain());
  }

  #look(): void {
    try {
      const cordoned = this.#ask(() => this.#queue.cordon(this.scheduler.cordon()));
      const backlog = this.#queue.isSilent ? null : new Map();
      this.#commit((scheduler) => scheduler.reconcile({ cordoned, backlog }));
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
    }
  }

  #ask<T>(ask: () => T): T | null {
    if (this.#queue.isSilent) return null;
    return ask();
  }

  #commit<T>(work: (scheduler: Scheduler) => T): T {
    if (!this.#scheduler) throw new Killed();
    const dies = this.#random.chance(this.deathChance) ? this.#random.pick(['before', 'after']) : null;
    const answer = work(this.#scheduler);
    if (dies === 'before') {
      this.kill();
      throw new Killed();
    }
    const hasWritten = this.disk.isDirty;
    this.disk.commit();
    if (hasWritten) this.#committed();
    if (dies === 'after') {
      this.kill();
      throw new Killed();
    }
    return answer;
  }
}

/** The scheduler was not there, or not there any more. */
class Killed extends Error {
  constructor() {
    super('the scheduler does not answer');
  }
}
