import { Fleet } from '../../src/fleet/fleet.ts';
import type { FleetEvent, PoolChoice, PoolStart, QueueShare, RecordAnswer } from '../../src/fleet/rpc.ts';
import { Scheduling } from '../../src/fleet/scheduling.ts';
import { Alarms } from '../../src/fleet/timers.ts';
import type { Heartbeat, RequestRecord } from '../../src/protocol/index.ts';
import type { LauncherAnswer, LauncherReport, PoolAction, RollRequest } from '../../src/scheduler/rpc.ts';
import { completeQueueSettings } from '../../src/settings/queue-settings.ts';
import { Disk } from '../simulation/disk.ts';
import type { Timeline } from '../simulation/timeline.ts';
import { NO_ALERTING } from '../support/no-alerting.ts';
import type { Random } from '../support/random.ts';
import type { FleetPlan } from './plan.ts';
import type { QueueHost } from './queue-host.ts';

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz0123456789'];
const QUEUE_ID = 'vllm-queue';

interface FleetWorld {
  timeline: Timeline;
  random: Random;
  queue: Pick<QueueHost, 'cordon' | 'tellFleet'>;
  /** After every commit that wrote something. */
  committed(): void;
}

/** What is gone when its process is. */
interface Life {
  fleet: Fleet;
  scheduling: Scheduling;
  fleetAlarm: ReturnType<Alarms['part']>;
  schedulingAlarm: ReturnType<Alarms['part']>;
}

/**
 * The real fleet object's rules over real SQLite, scheduler included, as the object hosts them. It may be killed before
 * a commit of its scheduler, or after it and before anybody has the answer; then it starts again from its rows.
 */
export class FleetHost {
  readonly disk = new Disk(() => {});
  readonly #plan: FleetPlan;
  readonly #world: FleetWorld;
  #life: Life | null = null;
  #alarmAt: number | null = null;
  #isAlarmRunning = false;
  #hearing: Promise<void> | null = null;
  #isEvicted = false;
  /** How often it was killed. */
  restarts = 0;
  /** Answers that wait for nothing in virtual time, only for a signature. */
  readonly #signing = new Set<Promise<unknown>>();
  /** Its wall clock against the true one, ms. */
  skewMs = 0;
  /** What an operator said last. */
  operator: PoolAction = 'resume';
  /** Of each commit of the scheduler. */
  deathChance = 0;

  constructor(plan: FleetPlan, world: FleetWorld) {
    this.#plan = plan;
    this.#world = world;
    this.#start();
    this.#fleet.scheduler.specs.apply(plan.spec, false);
    this.disk.commit();
    this.#lookAtAlarm();
  }

  now(): number {
    return this.#world.timeline.now + this.skewMs;
  }

  get isUp(): boolean {
    return this.#life !== null;
  }

  /** For looking only; null: it is not there. */
  get rules(): Fleet | null {
    return this.#life?.fleet ?? null;
  }

  /** What was not committed is gone. */
  kill(): void {
    this.#end();
    const restart = this.restarts;
    this.#world.timeline.after(this.#world.random.wait(5000, 30_000), () => {
      if (restart === this.restarts) this.#start();
    });
  }

  /** Its memory is gone when the queue's next report reaches it. */
  evict(): void {
    this.#isEvicted = true;
  }

  /** An object whose clock was set back starts again with the new one. */
  setClockBack(byMs: number): void {
    this.skewMs -= byMs;
    this.#alarmAt = this.now();
    this.kill();
  }

  /** @throws Error when there is no answer, whatever has become of what was told */
  async sync(report: LauncherReport): Promise<LauncherAnswer> {
    if (!this.#life) throw new Killed();
    const answering = this.#life.scheduling.sync('launcher', report);
    const settled = answering.catch(() => {}).finally(() => this.#signing.delete(settled));
    this.#signing.add(settled);
    return await answering;
  }

  /** Done when every signature that was asked for is made: no virtual time may pass until then. @returns whether one was */
  async signed(): Promise<boolean> {
    if (this.#signing.size === 0) return false;
    await Promise.all(this.#signing);
    return true;
  }

  record(
    events: FleetEvent[],
    share: QueueShare | undefined,
    ended: RequestRecord[],
    failed: Record<string, number>,
  ): RecordAnswer {
    if (this.#life && this.#isEvicted) {
      this.#end();
      this.#start();
    }
    const { scheduling } = this.#up;
    const answer = this.#commit(() => this.#fleet.record(events, share, ended, failed));
    if (share) scheduling.heard(share);
    return answer;
  }

  heartbeat(beat: Heartbeat): void {
    this.#life?.fleet.heartbeat(beat);
  }

  choose(model: string): PoolChoice {
    return this.#fleet.chooseForCallers([model])[0]!;
  }

  /** An operator wants this of every pool, and says so until it is heard. */
  control(action: PoolAction): void {
    this.operator = action;
    if (!this.#life) return void this.#world.timeline.after(1000, () => this.control(action));
    const { fleet, scheduling } = this.#life;
    this.#commit(() => {
      for (const id of Object.keys(this.#plan.spec.pools)) fleet.scheduler.control(id, action, false);
    });
    scheduling.wake();
  }

  /** An operator has the workers of every pool started with these variables, and says so until it is heard. */
  changePools(env: Record<string, string>): void {
    if (!this.#life) return void this.#world.timeline.after(1000, () => this.changePools(env));
    const { spec } = this.#plan;
    const changed = Object.entries(spec.pools).map(([id, pool]) => [id, { ...pool, env }]);
    const { fleet, scheduling } = this.#life;
    this.#commit(() => fleet.scheduler.specs.apply({ ...spec, pools: Object.fromEntries(changed) }, false));
    scheduling.wake();
  }

  /** An operator says this of the versions of every pool, until it is heard. */
  roll(request: RollRequest): void {
    if (!this.#life) return void this.#world.timeline.after(1000, () => this.roll(request));
    const { fleet, scheduling } = this.#life;
    this.#commit(() => {
      for (const id of Object.keys(this.#plan.spec.pools)) fleet.scheduler.roll(id, request, false);
    });
    scheduling.wake();
  }

  starts(): PoolStart[] {
    return this.#life?.fleet.starts() ?? [];
  }

  #start(): void {
    this.#isEvicted = false;
    const { timeline, random, queue } = this.#world;
    const restart = this.restarts;
    const isAlive = () => restart === this.restarts;
    const setAlarm = (at: number | null) => {
      if (isAlive()) this.#alarmAt = at;
    };
    const alarms = new Alarms({
      get: () => this.#alarmAt,
      set: (at) => setAlarm(at),
      clear: () => setAlarm(null),
    });
    const [fleetAlarm, schedulingAlarm] = [alarms.part(), alarms.part()];
    const fleet = new Fleet(
      {
        queueId: QUEUE_ID,
        sql: this.disk,
        alarm: fleetAlarm,
        now: () => this.now(),
        randomName: (length) => Array.from({ length }, () => random.pick(LETTERS)).join(''),
        alerting: () => NO_ALERTING,
      },
      completeQueueSettings({}),
    );
    const scheduling = new Scheduling({
      fleet,
      queueId: QUEUE_ID,
      alarm: schedulingAlarm,
      now: () => this.now(),
      commit: (work) => {
        if (!isAlive()) throw new Killed();
        return this.#mayDieAt(work);
      },
      cordon: (workerIds, shares) => queue.cordon(workerIds, shares),
      backlog: async () => [],
      after: (ms, run) => {
        const planned = timeline.after(ms, run);
        return () => {
          planned.run = null;
        };
      },
      log: () => {},
    });
    this.disk.commit();
    this.#life = { fleet, scheduling, fleetAlarm, schedulingAlarm };
  }

  #end(): void {
    this.disk.rollback();
    this.#life = null;
    this.restarts += 1;
    this.#isAlarmRunning = false;
    this.#hearing = null;
  }

  #lookAtAlarm(): void {
    const isDue = this.#alarmAt !== null && this.now() >= this.#alarmAt;
    if (this.#life && isDue && !this.#isAlarmRunning) void this.#alarm();
    this.#world.timeline.after(1000, () => this.#lookAtAlarm());
  }

  async #alarm(): Promise<void> {
    const { fleet, scheduling, fleetAlarm, schedulingAlarm } = this.#up;
    const restart = this.restarts;
    this.#alarmAt = null;
    const isSchedulingDue = schedulingAlarm.isDue(this.now());
    if (fleetAlarm.isDue(this.now())) this.#commit(() => fleet.onAlarm());
    if (!isSchedulingDue) return;
    this.#isAlarmRunning = true;
    await this.#hearOfQueue();
    if (restart === this.restarts) await scheduling.reconcile();
    if (restart === this.restarts) this.#isAlarmRunning = false;
  }

  async #hearOfQueue(): Promise<void> {
    if (this.#fleet.hasShare) return;
    this.#hearing ??= this.#world.queue.tellFleet().catch(() => {});
    await this.#hearing;
    this.#hearing = null;
  }

  get #up(): Life {
    if (!this.#life) throw new Killed();
    return this.#life;
  }

  get #fleet(): Fleet {
    return this.#up.fleet;
  }

  #commit<T>(work: () => T): T {
    const answer = work();
    const hasWritten = this.disk.isDirty;
    this.disk.commit();
    if (hasWritten) this.#world.committed();
    return answer;
  }

  #mayDieAt<T>(work: () => T): T {
    const { random } = this.#world;
    const dies = random.chance(this.deathChance) ? random.pick(['before', 'after']) : null;
    if (dies === null) return this.#commit(work);
    if (dies === 'before') work();
    else this.#commit(work);
    this.kill();
    throw new Killed();
  }
}

/** It was not there, or not there any more. */
class Killed extends Error {
  constructor() {
    super('the fleet object does not answer');
  }
}
