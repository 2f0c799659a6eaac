import { batchProblem, lineJobs } from './batch-check.ts';
import { BatchOwner } from './batch-owner.ts';
import { Caller } from './caller.ts';
import { countsProblem } from './counts-check.ts';
import { strike } from './faults.ts';
import { ledgerProblem } from './ledger-check.ts';
import { Oracle, type Violation } from './oracle.ts';
import type { JobPlan, Plan } from './plan.ts';
import { idleSlot, probes } from './probe.ts';
import { RETENTION_SECONDS } from './queue-host.ts';
import { Reader } from './reader.ts';
import { Server } from './server.ts';
import { SharedGpu } from './shared-gpu.ts';
import { Submitter } from './submitter.ts';
import { quiescent, Timeline } from './timeline.ts';
import { Trace } from './trace.ts';
import { usageProblem } from './usage-check.ts';
import type { Surroundings } from './worker-boot.ts';
import { WorkerProcess } from './worker-process.ts';

export interface RunResult {
  violation: Violation | null;
  /** Of everything that happened: the same for the same plan. */
  hash: string;
  lines: string[];
  steps: number;
  virtualSeconds: number;
}

/** Everything must be over this long after the last fault, ms of virtual time. */
const CONVERGES_WITHIN_MS = 20 * 60_000;
/** How long nothing may happen any more once it is, ms. */
const STAYS_QUIET_MS = 70_000;
/** Relays and workers remember answers that are over for a minute, and broken sockets for longer, ms. */
const FORGETS_WITHIN_MS = 5 * 60_000;
/** A pair of pings, a heartbeat and the load report; nothing else is armed in a worker without work. */
const TIMERS_AT_REST = 4;
/** What the queue stores of jobs and workers. */
const TABLES = ['jobs', 'ledger', 'sessions'] as const;
/** How often it is looked at whether all is over, ms of virtual time. */
const LOOKS_EVERY_MS = 200;
/** Steps after which a run is taken to go round in circles. */
const MOST_STEPS = 300_000;

/** One run of a plan: what breaks is broken, then everything must come to rest. */
export async function simulate(plan: Plan): Promise<RunResult> {
  const run = new Simulation(plan);
  try {
    return await run.run();
  } finally {
    run.close();
  }
}

class Simulation {
  readonly #plan: Plan;
  readonly #timeline = new Timeline();
  readonly #trace = new Trace(this.#timeline);
  readonly #oracle: Oracle;
  readonly #server: Server;
  readonly #workers: WorkerProcess[];
  readonly #submitters: Submitter[] = [];
  readonly #callers: Caller[] = [];
  readonly #readers: Reader[] = [];
  readonly #batches: BatchOwner[] = [];
  readonly #around: Surroundings;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#oracle = new Oracle(plan, this.#timeline);
    const ports = {
      plan,
      timeline: this.#timeline,
      trace: this.#trace,
      oracle: this.#oracle,
      isTroubled: () => !this.#isPast(plan.troubleEndsMs),
    };
    this.#server = new Server(ports);
    this.#around = { ...ports, server: this.#server };
    const gpu = new SharedGpu(this.#timeline, (promise, message) => this.#oracle.violated(promise, message));
    this.#workers = plan.workers.map((worker) => new WorkerProcess(this.#around, worker, gpu));
  }

  async run(): Promise<RunResult> {
    this.#schedule();
    await this.#until(() => this.#isPast(this.#plan.troubleEndsMs), 'the faults end', CONVERGES_WITHIN_MS);
    this.#trace.say('--- no more faults');
    this.#server.queue.beforeNextCommit(null);
    this.#server.batches.calm();
    await this.#until(() => this.#unfinished() === null, 'what was accepted is done', CONVERGES_WITHIN_MS);
    await this.#everySlotWorks();
    await this.#isQuiet();
    this.#batchesAreWhole();
    this.#ledgersAreTrue();
    this.#usageIsTrue();
    this.#countsAreTrue();
    await this.#everythingIsForgotten();
    return {
      violation: this.#oracle.violation,
      hash: this.#trace.hash,
      lines: this.#trace.lines,
      steps: this.#timeline.steps,
      virtualSeconds: Math.round((this.#timeline.now - Timeline.START) / 1000),
    };
  }

  close(): void {
    this.#server.queue.disk.close();
    this.#server.batches.close();
  }

  /** Of all that were submitted and of the lines of batches, those that the queue knows. */
  get #jobIds(): string[] {
    const ids = [...this.#submitters.map(({ id }) => id), ...this.#plan.batches.flatMap(lineJobs)];
    return ids.filter((id) => this.#server.queue.rules?.read('get', id, null));
  }

  #schedule(): void {
    const { jobs, callers, batches, faults } = this.#plan;
    this.#server.start();
    for (const worker of this.#workers) worker.start();
    for (const job of jobs) this.#submit(job);
    for (const plan of callers) {
      const caller = new Caller(this.#around, plan);
      this.#callers.push(caller);
      this.#timeline.after(plan.at, () => this.#watch(caller.run()));
    }
    for (const plan of batches) {
      const owner = new BatchOwner(this.#around, plan);
      this.#batches.push(owner);
      this.#timeline.after(plan.at, () => this.#watch(owner.run()));
    }
    for (const fault of faults) {
      const worker = this.#workers.find(({ plan }) => plan.name === fault.worker) ?? this.#workers[0]!;
      this.#timeline.after(fault.at, () => strike(this.#around, fault, worker));
    }
  }

  #submit(job: JobPlan): void {
    const submitter = new Submitter(this.#around, job);
    this.#submitters.push(submitter);
    this.#timeline.at(Timeline.START + job.at, () => this.#watch(submitter.run()));
    for (const plan of job.readers ?? []) {
      const reader = new Reader(this.#around, job.id, plan);
      this.#readers.push(reader);
      this.#timeline.at(Timeline.START + job.at + plan.comesAfterMs, () => this.#watch(reader.run()));
    }
  }

  /** Proof that no slot was lost on the way: as many jobs as slots are all running at once. */
  async #everySlotWorks(): Promise<void> {
    if (this.#oracle.violation) return;
    const { workers } = this.#plan;
    for (const probe of probes(workers, this.#timeline.now - Timeline.START)) this.#submit(probe);
    this.#trace.say('--- a job for every slot');
    await this.#until(() => this.#unfinished() === null, 'every slot works', 120_000);
    const idle = idleSlot(workers, this.#oracle);
    if (idle !== null) this.#oracle.violated('every slot works', idle);
  }

  async #isQuiet(): Promise<void> {
    if (this.#oracle.violation) return;
    this.#trace.say('--- nothing is left to do');
    const from = this.#timeline.now;
    this.#oracle.renewals = 0;
    const isOver = () => this.#timeline.now >= from + STAYS_QUIET_MS && this.#leftover() === null;
    await this.#until(isOver, 'nothing is left behind', FORGETS_WITHIN_MS);
  }

  #batchesAreWhole(): void {
    const { queue, batches } = this.#server;
    for (const { plan, batch } of this.#batches) {
      if (batch === null || !queue.rules) continue;
      const problem = batchProblem(plan, batch, batches, (id) => queue.rules?.read('get', id, null) ?? null);
      if (problem !== null) this.#oracle.violated(problem.promise, problem.message);
    }
  }

  #ledgersAreTrue(): void {
    const { rules } = this.#server.queue;
    for (const id of this.#jobIds) {
      const job = rules?.read('get', id, null);
      const ledger = rules?.read('ledger', id, null);
      if (!job || !ledger) continue;
      const problem = ledgerProblem(job, ledger, this.#oracle.fences.get(id) ?? []);
      if (problem !== null) this.#oracle.violated('a ledger tells what happened', `${id}: ${problem}`);
    }
  }

  #countsAreTrue(): void {
    const problem = countsProblem(this.#server.queue.disk);
    if (problem !== null) this.#oracle.violated('counts are what the rows say', problem);
  }

  #usageIsTrue(): void {
    const { rules, disk, life: restarts } = this.#server.queue;
    const states = this.#jobIds.map((id) => [id, rules?.read('get', id, null)?.state ?? 'lost'] as const);
    const { acknowledged, exchanges } = this.#oracle;
    const problem = usageProblem(disk, { stored: new Map(states), acknowledged, exchanges, restarts });
    if (problem !== null) this.#oracle.violated('usage is counted once', problem);
  }

  /** Without workers, and when the retention time is over, no table holds anything and no alarm is set. */
  async #everythingIsForgotten(): Promise<void> {
    if (this.#oracle.violation) return;
    for (const worker of this.#workers) worker.retire();
    await this.#until(() => this.#workers.every(({ boot }) => boot === null), 'workers end', 60_000);
    const { queue } = this.#server;
    const isEmpty = () => queue.alarmAt === null && TABLES.every((table) => this.#rows(table) === 0);
    const withinMs = RETENTION_SECONDS * 1000 + 60_000;
    await this.#until(isEmpty, 'what is old is forgotten', withinMs);
  }

  #rows(table: string): number {
    return Number(this.#server.queue.disk.exec(`SELECT count(*) AS n FROM ${table}`)[0]?.n);
  }

  #leftover(): string | null {
    if (this.#server.isBusy) return 'a relay remembers an answer';
    if (this.#oracle.renewals > 0) return 'a lease is renewed though nothing runs';
    for (const { boot } of this.#workers) {
      if (boot && boot.armedTimers > TIMERS_AT_REST + 2)
        return `${boot.boot} has ${boot.armedTimers} timers armed`;
    }
    return null;
  }

  /** What is not over yet, or null. */
  #unfinished(): string | null {
    const submitter = this.#submitters.find(({ state }) => state !== 'settled');
    if (submitter) return `${submitter.id} is ${submitter.state}`;
    const caller = this.#callers.find(({ isDone }) => !isDone);
    if (caller) return `${caller.id} is not answered`;
    const owner = this.#batches.find(({ isDone }) => !isDone);
    if (owner) return `${owner.plan.id} has not ended`;
    const reader = this.#readers.find(({ isDone }) => !isDone);
    if (reader) return `${reader.id} still reads`;
    const rules = this.#server.queue.rules;
    if (!rules) return 'the queue is down';
    const { running, pending } = rules.read('status');
    if (running + pending > 0) return `the queue counts ${running} running and ${pending} pending`;
    if (rules.nextTick() !== null) return 'the queue keeps something in memory';
    for (const { boot, plan, disk } of this.#workers) {
      if (disk.files > 0) return `${disk.files} settlements are in the spool of ${plan.name}`;
      if (!boot) return `${plan.name} is down`;
      const { worker, engine } = boot;
      if (worker.state !== 'ready') return `${boot.boot} is ${worker.state}`;
      if (boot.frozenUntil >= this.#timeline.now) return `${boot.boot} stands still`;
      if (!boot.isConnected) return `the connection of ${boot.boot} is broken`;
      if (worker.running > 0) return `${boot.boot} runs ${worker.running} jobs`;
      if (worker.unacknowledged > 0)
        return `${boot.boot} waits for ${worker.unacknowledged} acknowledgements`;
      if (engine.open > 0) return `the engine of ${boot.boot} has ${engine.open} requests`;
    }
    return null;
  }

  async #until(reached: () => boolean, what: string, withinMs: number): Promise<void> {
    const limit = this.#timeline.now + withinMs;
    let looksAt = this.#timeline.now;
    while (!this.#oracle.violation) {
      if (this.#timeline.now >= looksAt || this.#timeline.isEmpty) {
        if (reached()) return;
        looksAt = this.#timeline.now + LOOKS_EVERY_MS;
      }
      if (this.#timeline.now > limit || this.#timeline.steps > MOST_STEPS || !this.#timeline.step()) {
        this.#oracle.violated(what, this.#unfinished() ?? this.#leftover() ?? 'something remains');
        return;
      }
      await quiescent();
    }
  }

  #isPast(ms: number): boolean {
    return this.#timeline.now >= Timeline.START + ms;
  }

  #watch(running: Promise<void>): void {
    running.catch((error: Error) => this.#oracle.violated('nothing throws', error.stack ?? String(error)));
  }
}
