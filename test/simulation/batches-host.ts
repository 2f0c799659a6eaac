import type { Batch, NewBatch } from '../../src/batches/batch.ts';
import { cancelBatch, createBatch, lookAfter } from '../../src/batches/batches.ts';
import type { RunnerSizes } from '../../src/batches/feeder.ts';
import type { BatchPorts, BatchQueue } from '../../src/batches/ports.ts';
import { BatchRunner } from '../../src/batches/runner.ts';
import { BATCHES_TABLES, findBatch } from '../../src/batches/store.ts';
import { createTables, type SqlValue } from '../../src/durable/ports.ts';
import { addFile, type FileRecord, findFile } from '../../src/files/file-index.ts';
import { standsStill } from '../../src/host/cloudflare/clock-watch.ts';
import { inferenceRoutes } from '../../src/protocol/index.ts';
import { Random } from '../support/random.ts';
import type { BatchCall, BatchFault } from './batch-plan.ts';
import { Disk } from './disk.ts';
import { FileStore } from './file-store.ts';
import type { Plan } from './plan.ts';
import type { ProcessTimeline } from './process-timeline.ts';
import type { Planned } from './timeline.ts';
import type { Trace } from './trace.ts';

/** So small that a batch of a few lines is fed, collected and called back in several steps. */
const SIZES: RunnerSizes = { window: { least: 3, slots: 1 }, mostAtOnce: 4 };
/** How long it takes to start one again that somebody asks for, ms. */
const STARTS_WITHIN_MS = 20;

export interface BatchesHostPorts {
  plan: Plan;
  /** Of the server's process. */
  timeline: ProcessTimeline;
  trace: Trace;
  /** The queue as the gateway's code asks it, for as long as this says so. */
  queue(isAlive: () => boolean): BatchQueue;
  /** Faults have not stopped yet. */
  isTroubled(): boolean;
}

/** What is in memory of one life of the object. */
interface Rules {
  ports: BatchPorts;
  runner: BatchRunner;
}

/** What its callers may ask. */
export interface BatchesCalls {
  addFile(file: FileRecord): Promise<void>;
  findFile(id: string): Promise<FileRecord | null>;
  createBatch(asked: NewBatch, idempotencyKey: string): Promise<Batch | null>;
  findBatch(id: string): Promise<Batch | null>;
  cancelBatch(id: string): Promise<Batch | null>;
}

/**
 * The object that runs batches as its runtime runs it: what it wrote is on disk before anything leaves it, calls may
 * fail before or after they reach whom they are for, and it may end at any of them.
 */
export class BatchesHost {
  readonly files = new FileStore();
  readonly disk = new Disk(() => {});
  readonly #ports: BatchesHostPorts;
  readonly #random: Random;
  #rules: Rules | null = null;
  #isServerUp = false;
  #isEnding = false;
  /** Counts lives of the object: what belongs to an earlier one is void. */
  #life = 0;
  #latestNow = 0;
  #commit: Planned | null = null;
  /** What waits for the commit. */
  #held: (() => void)[] = [];
  #alarmAt: number | null = null;
  #durableAlarm: number | null = null;
  #alarm: Planned | null = null;
  #faults: BatchFault[] = [];

  constructor(ports: BatchesHostPorts) {
    this.#ports = ports;
    this.#random = new Random(ports.plan.seed, 'batches host');
  }

  /** The server's process has started. */
  start(): void {
    this.#isServerUp = true;
    this.#planAlarm();
  }

  /** The server's process has ended. */
  stop(): void {
    this.#isServerUp = false;
    this.#end();
  }

  /** Thrown out of its process, which lives on. */
  reset(): void {
    if (!this.#rules) return;
    this.#ports.trace.say('batches object ends');
    this.#end();
    this.#planAlarm();
  }

  strike(fault: BatchFault): void {
    if (fault.kind === 'batches_reset') this.reset();
    else this.#faults.push(fault);
  }

  /** No more of them. */
  calm(): void {
    this.#faults = [];
  }

  close(): void {
    this.#end();
    this.disk.close();
  }

  /** @param isAlive whoever asks */
  calls(isAlive: () => boolean): BatchesCalls {
    const ask = <T>(work: (rules: Rules) => T): Promise<T> =>
      new Promise((resolve, reject) => {
        this.#ports.timeline.after(this.#random.int(0, STARTS_WITHIN_MS), () => {
          if (!isAlive() || !this.#isServerUp) return;
          try {
            const rules = this.#started();
            this.#watchClock();
            const answer = work(rules);
            this.#hold(() => isAlive() && resolve(answer));
          } catch (error) {
            reject(error);
          }
        });
      });
    return {
      addFile: (file) => ask(({ ports }) => this.#look(() => addFile(ports.sql, file))),
      findFile: (id) => ask(({ ports }) => findFile(ports.sql, id, null, ports.now())),
      createBatch: (asked, key) => ask(({ ports }) => this.#look(() => createBatch(ports, asked, key))),
      findBatch: (id) => ask(({ ports }) => findBatch(ports.sql, id, null)?.batch ?? null),
      cancelBatch: (id) => ask(({ ports }) => this.#look(() => cancelBatch(ports, id, null))),
    };
  }

  #look<T>(work: () => T): T {
    const answer = work();
    const { ports, runner } = this.#rules!;
    if (lookAfter(ports, this.#alarmPort())) runner.wake();
    return answer;
  }

  #started(): Rules {
    if (this.#rules) return this.#rules;
    this.#latestNow = 0;
    this.#alarmAt = this.#durableAlarm;
    const ports = this.#batchPorts();
    createTables(ports.sql, BATCHES_TABLES);
    this.#rules = { ports, runner: new BatchRunner(ports, SIZES) };
    this.#look(() => {});
    return this.#rules;
  }

  #end(): void {
    this.#life += 1;
    this.#isEnding = false;
    this.#rules = null;
    this.#held = [];
    this.disk.rollback();
    for (const planned of [this.#commit, this.#alarm]) if (planned) planned.run = null;
    this.#commit = null;
    this.#alarm = null;
  }

  get #now(): number {
    this.#latestNow = Math.max(this.#latestNow, this.#ports.timeline.now);
    return this.#latestNow;
  }

  /** An object whose clock was set back would wait until the clock is there again: its host ends it. */
  #watchClock(): void {
    const { timeline, trace } = this.#ports;
    if (this.#isEnding || !standsStill(this.#now, timeline.now)) return;
    trace.say('the clock was set back; the batches object ends');
    this.#alarmPort().set(timeline.now);
    this.#isEnding = true;
    const life = this.#life;
    this.#hold(() => life === this.#life && this.reset());
  }

  #alarmPort() {
    const set = (at: number | null) => {
      // Its host starts the next one at once.
      if (this.#isEnding) return;
      this.disk.touch();
      this.#alarmAt = at;
      this.#planCommit();
    };
    return { get: () => this.#alarmAt, set, clear: () => set(null) };
  }

  #planAlarm(): void {
    if (this.#alarm) this.#alarm.run = null;
    this.#alarm = null;
    const at = this.#durableAlarm;
    if (at === null || !this.#isServerUp) return;
    const { timeline, plan } = this.#ports;
    const late = this.#random.int(0, plan.alarmLateMs);
    this.#alarm = timeline.at(Math.max(at, timeline.now) + late, () => {
      this.#alarm = null;
      this.#started();
      // The runtime calls again after a crash: what the call wrote and that it came are one commit.
      this.#alarmPort().clear();
      this.#look(() => {});
    });
  }

  /** Lets something out when what was done until now is on disk. */
  #hold(output: () => void): void {
    if (this.disk.isDirty) this.#held.push(output);
    else output();
  }

  #planCommit(): void {
    if (!this.disk.isDirty || this.#commit) return;
    const { timeline, plan } = this.#ports;
    this.#commit = timeline.after(this.#random.int(0, plan.commitMs), () => {
      this.#commit = null;
      if (this.#takeFault(({ kind }) => kind === 'batches_reset_in_commit')) return this.reset();
      this.disk.commit();
      this.#durableAlarm = this.#alarmAt;
      this.#planAlarm();
      const held = this.#held;
      this.#held = [];
      for (const output of held) output();
    });
  }

  #takeFault(matches: (fault: BatchFault) => boolean): BatchFault | null {
    const at = this.#faults.findIndex(matches);
    return at < 0 ? null : this.#faults.splice(at, 1)[0]!;
  }

  #batchPorts(): BatchPorts {
    const life = this.#life;
    const { timeline, trace } = this.#ports;
    const exec = (query: string, ...bindings: SqlValue[]) => {
      if (life !== this.#life) throw new Error('this life of the object is over');
      const rows = this.disk.exec(query, ...bindings);
      this.#planCommit();
      return rows;
    };
    return {
      sql: { exec },
      now: () => this.#now,
      sleep: (ms) => {
        this.#watchClock();
        return new Promise((resolve) => timeline.at(this.#now + ms, () => life === this.#life && resolve()));
      },
      background: () => {},
      queue: this.#guarded(this.#ports.queue(() => life === this.#life)),
      routes: inferenceRoutes(),
      ended: () => {},
      files: this.#guarded(this.files),
      log: (level, message, fields) =>
        trace.say(`batches ${level} ${message} ${JSON.stringify(fields ?? {})}`),
    };
  }

  /** Its calls leave when what was done is on disk; some fail, before or after they are heard, some come twice. */
  #guarded<T extends object>(target: T): T {
    const life = this.#life;
    const guarded = Object.keys(methodsOf(target)).map((name) => [
      name,
      (...given: unknown[]) =>
        new Promise((resolve, reject) =>
          this.#hold(() => {
            if (life === this.#life)
              this.#call(name as BatchCall, () => methodsOf(target)[name]!.apply(target, given)).then(
                (value) => life === this.#life && resolve(value),
                (error) => life === this.#life && reject(error),
              );
          }),
        ),
    ]);
    return Object.fromEntries(guarded) as T;
  }

  /** Asked again by whoever heard no answer; of what has settled only the listener's object hears. */
  #isRepeated(name: BatchCall): boolean {
    return this.#ports.isTroubled() && name !== 'nextSettled' && this.#random.chance(0.05);
  }

  async #call(name: BatchCall, call: () => Promise<unknown>): Promise<unknown> {
    const life = this.#life;
    const { timeline, plan, isTroubled } = this.#ports;
    const fault = this.#takeFault((one) => one.kind === 'batches_reset_at_call' && one.call === name);
    const isLost = isTroubled() && this.#random.chance(plan.httpLoss / 10);
    const isHeard = this.#random.chance(0.5);
    if (fault?.kind === 'batches_reset_at_call' && !fault.isHeard) return this.reset();
    await new Promise<void>((resolve) => timeline.after(this.#random.int(0, 3), resolve));
    if (life !== this.#life) return;
    if (isLost && !isHeard) throw new Error(`${name}: the call was lost`);
    if (this.#isRepeated(name)) await call();
    const answer = await call();
    if (fault && life === this.#life) return this.reset();
    await new Promise<void>((resolve) => timeline.after(this.#random.int(0, 3), resolve));
    if (isLost) throw new Error(`${name}: the answer was lost`);
    return answer;
  }
}

type Methods = Record<string, (...given: unknown[]) => Promise<unknown>>;

/** Those of an object or of its class. */
function methodsOf(target: object): Methods {
  const own = Object.getPrototypeOf(target) === Object.prototype ? target : Object.getPrototypeOf(target);
  return Object.fromEntries(
    Object.getOwnPropertyNames(own)
      .filter((name) => name !== 'constructor')
      .map((name) => [name, (target as Methods)[name]!]),
  );
}
