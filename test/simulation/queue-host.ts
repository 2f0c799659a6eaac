import type { AliasTable } from '../../src/aliases/alias.ts';
import type { QueueShare } from '../../src/fleet/rpc.ts';
import { ClockWatch } from '../../src/host/cloudflare/clock-watch.ts';
import { parseFrames, parseJson, WorkerFrame } from '../../src/protocol/index.ts';
import { FleetReport } from '../../src/queue/object/fleet-report.ts';
import { Timer } from '../../src/queue/object/timer.ts';
import { Queue } from '../../src/queue/queue.ts';
import type { Ports } from '../../src/queue/store/ports.ts';
import { Random } from '../support/random.ts';
import { ControlConnection } from './control-connection.ts';
import { Disk } from './disk.ts';
import { Forger } from './forger.ts';
import type { Link } from './network.ts';
import type { Oracle } from './oracle.ts';
import { Questions } from './questions.ts';
import type { QueueHostPorts } from './queue-host-ports.ts';
import { RetryCheck } from './retry-check.ts';
import type { Planned } from './timeline.ts';
import { framesIn } from './trace.ts';

/** Of a queue that is gone. */
const NO_SHARE: QueueShare = { at: 0, full: false, sessions: [], gone: [], pools: [] };

/** Longer than any run takes until its workers retire. */
export const RETENTION_SECONDS = 7200;

/**
 * The queue object as its runtime runs it: what is done between two commits is on disk together or not at all,
 * and nothing that speaks of it leaves before. Its memory goes with its process; the disk stays.
 */
export class QueueHost {
  readonly oracle: Oracle;
  readonly disk: Disk;
  readonly #ports: QueueHostPorts;
  readonly #random: Random;
  readonly forger: Forger;
  readonly #connections = new Set<ControlConnection>();
  /** Of the gateway. */
  readonly questions: Questions;
  #retries: RetryCheck;
  #queue: Queue | null = null;
  #report: FleetReport;
  #held: (() => void)[] = [];
  #isAtWork = false;
  #commit: Planned | null = null;
  /** Counts lives of the object: what belongs to an earlier one is void. */
  life = 0;
  #alarmAt: number | null = null;
  #durableAlarm: number | null = null;
  #alarm: { at: number; planned: Planned } | null = null;
  readonly #tick: Timer;
  #sessions = 0;
  /** Runs when something has been done that is not on disk yet. */
  #beforeCommit: (() => void) | null = null;
  #isWatched = false;
  #latestNow = 0;
  #isEnding = false;
  readonly #clock: ClockWatch;

  constructor(ports: QueueHostPorts) {
    this.#ports = ports;
    this.oracle = ports.oracle;
    this.#clock = new ClockWatch(
      () => this.now,
      () => ports.timeline.now,
    );
    this.#tick = new Timer((at) => this.#do((queue) => queue.onTick(at)), {
      now: () => ports.timeline.now,
      after: (ms, run) => {
        const planned = ports.timeline.at(ports.timeline.now + ms, run);
        return () => {
          planned.run = null;
        };
      },
    });
    this.disk = new Disk((change) => ports.oracle.rowChanged(change));
    ports.oracle.waitingBefore = (jobId) => this.disk.waitingBefore(jobId);
    this.#random = new Random(ports.plan.seed, 'queue');
    this.forger = new Forger(ports.plan.seed, ports.timeline, this.#connections, (by, text) => {
      if (this.#queue) this.#do((queue) => queue.onFrame(by, parseJson(WorkerFrame, text), () => 'forged'));
    });
    this.#report = this.#newReport();
    this.#retries = this.#newRetries();
    this.questions = new Questions({
      asked: (request) => this.#retries.asked(request),
      timeline: ports.timeline,
      random: this.#random,
      ask: (question) => {
        if (this.#queue) this.#do(question);
        return this.#queue !== null;
      },
      hold: (output) => this.hold(output),
      tellFleet: () => this.#report.flush(),
    });
  }

  /** Epoch ms, as `Date.now()` in the object: it never goes back in one life. */
  get now(): number {
    this.#latestNow = Math.max(this.#latestNow, this.#ports.timeline.now);
    return this.#latestNow;
  }

  get isUp(): boolean {
    return this.#queue !== null;
  }

  /** For looking only. */
  get rules(): Queue | null {
    return this.#queue;
  }

  get alarmAt(): number | null {
    return this.#durableAlarm;
  }

  start(): void {
    const { plan } = this.#ports;
    this.#alarmAt = this.#durableAlarm;
    this.#report = this.#newReport();
    this.#do(() => {
      this.#queue = new Queue(this.#queuePorts(), {
        queue_id: 'q',
        lease_seconds: plan.leaseSeconds,
        reconnect_grace_seconds: plan.graceSeconds,
        retention_seconds: RETENTION_SECONDS,
      });
    });
    if (plan.sharesName) this.#do((queue) => queue.do('takeAliases', aliasesOf(this.life)));
    if (!this.#isWatched) this.disk.watch();
    this.#isWatched = true;
    this.#planAlarm();
  }

  /** Memory, sockets and whatever was not on disk are gone. */
  stop(isPowerLoss: boolean): void {
    this.#forget();
    this.disk.rollback();
    this.oracle.rolledBack();
    this.oracle.queueEnded();
    for (const { link } of this.#connections) link.serverDied(isPowerLoss);
    this.#connections.clear();
  }

  /** The object dies alone: who waits for it in the same process hears that it is gone. */
  reset(): void {
    const rejectAll = this.questions.takeUnanswered();
    this.stop(false);
    rejectAll();
    this.start();
  }

  /** Memory goes, sockets stay; only where nothing is kept in memory. */
  hibernate(): boolean {
    if (!this.#queue || this.disk.isDirty || this.questions.unanswered > 0 || this.#queue.nextTick() !== null)
      return false;
    this.#forget();
    this.start();
    return true;
  }

  /** The process is about to end: every worker is told. */
  leave(): void {
    this.#do((queue) => {
      queue.leave();
      for (const connection of this.#connections) connection.close(1012, 'queue restarting');
    });
  }

  /** Once, between a piece of work and its commit. @param run null: nothing any more */
  beforeNextCommit(run: (() => void) | null): void {
    this.#beforeCommit = run;
  }

  accept(link: Link): void {
    const connection = new ControlConnection(this, link);
    this.#connections.add(connection);
    this.oracle.dialled(link);
    link.accepted({
      text: (message) => {
        if (connection.isGivenUp) return;
        for (const text of framesIn(message)) {
          this.oracle.frameHeard(text, link);
          this.#retries.heard(connection.load()?.worker_id ?? null, text);
        }
        // A crash in the commit of one loses those behind it.
        for (const frame of parseFrames(WorkerFrame, message, 'result'))
          if (this.#queue)
            this.#do((queue) => queue.onFrame(connection, frame, () => `session-${++this.#sessions}`));
      },
      binary: () => {},
      closed: () => {
        this.#connections.delete(connection);
        this.#do((queue) => queue.onClose(connection));
      },
    });
  }

  /**
   * Lets something out when the commit that it speaks of is on disk: at once where no work and no commit is under way,
   * since nothing else would let it out then.
   */
  hold(output: () => void): void {
    if (this.#isAtWork || this.disk.isDirty) this.#held.push(output);
    else output();
  }

  /** Untold events go with the object, and a call under way is never answered. */
  #newReport(): FleetReport {
    const life = this.life;
    const isAlive = () => life === this.life;
    const ifAlive = (run: () => void) => void (isAlive() && run());
    const never = new Promise<never>(() => {});
    return new FleetReport({
      send: async (...report) => {
        const answer = isAlive() ? await this.#ports.fleet().record(...report) : null;
        return answer !== null && isAlive() ? answer : never;
      },
      share: () => (isAlive() ? (this.#queue as Queue).read('share') : NO_SHARE),
      takeEnded: () => (isAlive() ? (this.#queue as Queue).takeEnded() : []),
      takeFailed: () => (isAlive() ? (this.#queue as Queue).takeFailed() : {}),
      takeDisplaced: () => (isAlive() ? (this.#queue as Queue).takeDisplaced() : {}),
      awaitsStart: () => isAlive() && (this.#queue as Queue).read('awaitsStart'),
      takeStarts: (starts) => ifAlive(() => this.#do((queue) => queue.do('takeStarts', starts))),
      // A run has its own aliases (`start`), and no fleet's file.
      takeAliases: async () => {},
      after: (ms, run) => this.#ports.timeline.after(ms, () => ifAlive(run)),
      failed: () => {},
    });
  }

  #newRetries(): RetryCheck {
    return new RetryCheck(this.oracle, () => this.now);
  }

  /** Hears of every frame that is written. */
  readonly retries = {
    sent: (worker: string, text: string) =>
      this.#retries.sent(worker, text, () => this.#queue?.read('sessions') ?? []),
  };

  #do(work: (queue: Queue) => void): void {
    this.#isAtWork = true;
    try {
      work(this.#queue as Queue);
    } catch (error) {
      this.oracle.violated('the rules throw nothing', (error as Error).stack ?? String(error));
    }
    if (this.#queue) this.oracle.rowsKnown(this.#queue, this.disk);
    if (this.disk.isDirty || this.#queue?.isWriteDue) this.#queue?.beforeCommit();
    this.#isAtWork = false;
    if (this.disk.isDirty && this.#beforeCommit) {
      const run = this.#beforeCommit;
      this.#beforeCommit = null;
      run();
      return;
    }
    this.#tick.arm(this.#queue?.nextTick() ?? null);
    this.#report.changed();
    this.#watchClock();
    if (!this.disk.isDirty) this.#letOut();
    else if (this.#ports.plan.commitMs === 0) this.#committed();
    else {
      this.#commit ??= this.#ports.timeline.after(this.#random.int(0, this.#ports.plan.commitMs), () =>
        this.#committed(),
      );
    }
  }

  #committed(): void {
    this.#commit = null;
    this.disk.commit();
    this.#durableAlarm = this.#alarmAt;
    this.oracle.committed();
    this.#planAlarm();
    this.#letOut();
  }

  #letOut(): void {
    const held = this.#held;
    this.#held = [];
    for (const output of held) output();
  }

  #forget(): void {
    this.life += 1;
    this.#retries = this.#newRetries();
    this.#latestNow = 0;
    this.#isEnding = false;
    this.#queue = null;
    this.#held = [];
    this.questions.takeUnanswered();
    for (const planned of [this.#commit, this.#alarm?.planned]) {
      if (planned) planned.run = null;
    }
    this.#commit = null;
    this.#beforeCommit = null;
    this.#tick.cancel();
    this.#alarm = null;
  }

  #planAlarm(): void {
    const at = this.#durableAlarm;
    if (this.#alarm?.at === at) return;
    if (this.#alarm) this.#alarm.planned.run = null;
    this.#alarm = null;
    if (at === null) return;
    const late = this.#random.int(0, this.#ports.plan.alarmLateMs);
    const planned = this.#ports.timeline.at(Math.max(at, this.#ports.timeline.now) + late, () => {
      this.#alarm = null;
      this.#alarmAt = null;
      this.disk.touch();
      this.#do((queue) => queue.onAlarm(at));
    });
    this.#alarm = { at, planned };
  }

  /** As soon as what is done is on disk, the object starts again with the clock that was set back. */
  #watchClock(): void {
    if (this.#queue === null || this.#isEnding || !this.#clock.standsStill(this.disk.isDirty)) return;
    this.#isEnding = true;
    this.#queue.clockSetBack();
    const life = this.life;
    const reset = () => life === this.life && this.reset();
    this.#ports.timeline.after(this.#ports.plan.commitMs + 1, reset);
  }

  #queuePorts(): Ports {
    const { trace } = this.#ports;
    const life = this.life;
    const setAlarm = (at: number | null) => {
      this.disk.touch();
      this.#alarmAt = at;
      // Set again for a time that is over, it is planned again.
      if (at !== null && at <= this.now && this.#alarm) {
        this.#alarm.planned.run = null;
        this.#alarm = null;
      }
    };
    return {
      sql: this.disk,
      alarm: { get: () => this.#alarmAt, set: setAlarm, clear: () => setAlarm(null) },
      undoable: this.disk.undoable,
      now: () => this.now,
      random: () => this.#random.next(),
      connections: () => [...this.#connections],
      breakStream: (worker, stream, reason) => {
        this.#retries.gaveUp(worker);
        this.hold(() => {
          if (life === this.life) this.#ports.breakStream(worker, stream, reason);
        });
      },
      closeAnswers: () => {},
      tellFleet: (event) =>
        this.hold(() => {
          if (life === this.life) this.#report.tell(event);
        }),
      log: (level, message, fields) => {
        if (level !== 'debug') trace.say(`queue ${level} ${message} ${JSON.stringify(fields ?? {})}`);
      },
    };
  }
}

/** The alias of both models, whose weights are others in each life of the queue. */
function aliasesOf(life: number): AliasTable {
  const to = [
    { model: 'tiny', weight: 1 + (life % 9) },
    { model: 'small', weight: 9 - (life % 9) },
  ];
  return { name: { split: { by: 'session' }, to, then: [], on: ['no_worker', 'queue_full', 'failed'] } };
}
