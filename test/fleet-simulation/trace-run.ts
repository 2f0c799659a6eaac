import { nameOf } from '../../src/scheduler/launch.ts';
import { Random } from '../support/random.ts';
import { Endings } from './endings.ts';
import { type Arrival, logNormal } from './trace.ts';

/** A rule that says how many workers to launch and which to drain. */
export interface Scaler {
  /** How often it is asked, ms. */
  every: number;
  decide(seen: Seen): Change;
}

export interface Seen {
  /** Epoch ms */
  now: number;
  waiting: number;
  running: number;
  /** Since the beginning. */
  submitted: number;
  ended: number;
  /** Those that ended within the last two hours too. */
  workers: readonly Worker[];
}

export interface Change {
  launch: number;
  drain: readonly Worker[];
  takeBack: readonly Worker[];
}

export interface Worker {
  id: string;
  name: string;
  state: 'starting' | 'ready' | 'draining' | 'gone' | 'failed' | 'no_capacity';
  /** Epoch ms */
  launched_at: number;
  ready_at: number | null;
  ended_at: number | null;
  running: number;
  idle_since: number;
}

export interface Conditions {
  /** Of a worker. */
  slots: number;
  /** Of a slot. */
  tokens_per_second: number;
  /** Median of a start, s. */
  start: number;
  /** Workers at once. */
  max: number;
}

export interface Figures {
  /** Paid for: from each launch to its end. */
  gpu_hours: number;
  /** What the jobs themselves take. */
  work_hours: number;
  /** Waits of all jobs, s. */
  p95: number;
  p99: number;
  launches: number;
}

const BEGIN = Date.UTC(2026, 0, 5);
const HOUR = 3_600_000;
/** Of launches: so many are sold out, so many fail after two minutes. */
const SOLD_OUT = 0.1;
const FAILED = 0.05;
const FAILS_AFTER_MS = 120_000;
/** No rule here looks further back at what ended. */
const REMEMBERED_MS = 2 * HOUR;

/**
 * One rule over one trace: workers of equal speed, jobs in their order to the least busy one, starts that vary and fail.
 * Chance comes from one seed, the same for every rule.
 */
export function runTrace(trace: Arrival[], scaler: Scaler, conditions: Conditions, seed = 1): Figures {
  return new TraceRun(trace, scaler, conditions, seed).run();
}

class TraceRun {
  readonly #trace: Arrival[];
  readonly #scaler: Scaler;
  readonly #conditions: Conditions;
  readonly #random: Random;
  readonly #endings = new Endings<{ kind: 'job' | 'ready' | 'failed'; worker: Worker }>();
  readonly #workers: Worker[] = [];
  readonly #waits: number[] = [];
  /** The next of the trace to be submitted, and to be run. */
  #submitted = 0;
  #started = 0;
  #ended = 0;
  #launches = 0;
  #paidMs = 0;
  /** ms from the beginning. */
  #now = 0;

  constructor(trace: Arrival[], scaler: Scaler, conditions: Conditions, seed: number) {
    this.#trace = trace;
    this.#scaler = scaler;
    this.#conditions = conditions;
    this.#random = new Random(seed, 'starts');
  }

  run(): Figures {
    const until = (this.#trace.at(-1)?.at ?? 0) + HOUR;
    let tick = 0;
    for (;;) {
      const arrival = this.#trace[this.#submitted]?.at ?? Number.POSITIVE_INFINITY;
      this.#now = Math.min(arrival, this.#endings.nextAt, tick);
      if (this.#now > until) break;
      if (arrival === this.#now) this.#submitted += 1;
      else if (this.#endings.nextAt === this.#now) this.#pass();
      else {
        this.#decide();
        tick += this.#scaler.every;
      }
      this.#dispatch();
      for (const worker of this.#workers) {
        if (worker.state === 'draining' && worker.running === 0) this.#end(worker, 'gone');
      }
    }
    for (const worker of this.#workers) if (worker.ended_at === null) this.#end(worker, 'gone');
    return this.#figures();
  }

  #pass(): void {
    const { kind, worker } = this.#endings.take();
    if (kind === 'job') {
      worker.running -= 1;
      this.#ended += 1;
      if (worker.running === 0) worker.idle_since = BEGIN + this.#now;
    } else if (worker.state === 'starting' && kind === 'failed') this.#end(worker, 'failed');
    else if (worker.state === 'starting') {
      worker.state = 'ready';
      worker.ready_at = BEGIN + this.#now;
      worker.idle_since = BEGIN + this.#now;
    }
  }

  #decide(): void {
    const now = BEGIN + this.#now;
    for (let index = this.#workers.length - 1; index >= 0; index--) {
      const { ended_at } = this.#workers[index]!;
      if (ended_at !== null && now - ended_at > REMEMBERED_MS) this.#workers.splice(index, 1);
    }
    const change = this.#scaler.decide({
      now,
      waiting: this.#submitted - this.#started,
      running: this.#workers.reduce((sum, { running }) => sum + running, 0),
      submitted: this.#submitted,
      ended: this.#ended,
      workers: this.#workers,
    });
    for (const worker of change.takeBack) worker.state = 'ready';
    for (const worker of change.drain) {
      if (worker.state === 'starting') this.#end(worker, 'gone');
      else worker.state = 'draining';
    }
    const alive = this.#workers.filter(({ ended_at }) => ended_at === null).length;
    const launches = Math.min(change.launch, this.#conditions.max - alive);
    for (let n = 0; n < launches; n++) this.#launch();
  }

  #launch(): void {
    this.#launches += 1;
    const id = String(this.#launches).padStart(10, '0');
    const worker: Worker = {
      id,
      name: nameOf('inst', 'chat', id),
      state: 'starting',
      launched_at: BEGIN + this.#now,
      ready_at: null,
      ended_at: null,
      running: 0,
      idle_since: 0,
    };
    this.#workers.push(worker);
    const chance = this.#random.next();
    const takes = logNormal(this.#random, this.#conditions.start, 0.25) * 1000;
    if (chance < SOLD_OUT) this.#end(worker, 'no_capacity');
    else if (chance < SOLD_OUT + FAILED) {
      this.#endings.add(this.#now + FAILS_AFTER_MS, { kind: 'failed', worker });
    } else this.#endings.add(this.#now + takes, { kind: 'ready', worker });
  }

  #end(worker: Worker, state: Worker['state']): void {
    worker.state = state;
    worker.ended_at = BEGIN + this.#now;
    if (state !== 'no_capacity') this.#paidMs += worker.ended_at - worker.launched_at;
  }

  #dispatch(): void {
    const { slots, tokens_per_second } = this.#conditions;
    while (this.#started < this.#submitted) {
      let best: Worker | null = null;
      for (const worker of this.#workers) {
        if (worker.state !== 'ready' || worker.running >= slots) continue;
        if (best === null || worker.running < best.running) best = worker;
      }
      if (!best) return;
      const job = this.#trace[this.#started++]!;
      best.running += 1;
      this.#waits.push(this.#now - job.at);
      const takes = (job.output / tokens_per_second) * 1000;
      this.#endings.add(this.#now + takes, { kind: 'job', worker: best });
    }
  }

  #figures(): Figures {
    const { slots, tokens_per_second } = this.#conditions;
    // Those that still wait at the end have waited until then.
    for (const { at } of this.#trace.slice(this.#started)) this.#waits.push(this.#now - at);
    const sorted = this.#waits.sort((a, b) => a - b);
    const wait = (share: number) => (sorted[Math.floor(share * sorted.length)] ?? 0) / 1000;
    const tokens = this.#trace.reduce((sum, { output }) => sum + output, 0);
    return {
      gpu_hours: this.#paidMs / HOUR,
      work_hours: tokens / tokens_per_second / slots / 3600,
      p95: wait(0.95),
      p99: wait(0.99),
      launches: this.#launches,
    };
  }
}
