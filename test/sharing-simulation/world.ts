import { type FakeConnection, QueueHarness } from '../support/queue-harness.ts';
import { Random } from '../support/random.ts';
import { BudgetPromise, PRICE } from './budgets.ts';
import { type Job, prefixOf, type Run } from './jobs.ts';
import { BrokenPromise, Promises } from './promises.ts';
import { arrivals, drawTenants, LONGEST, type Tenant } from './tenants.ts';

/**
 * Tenants that flood, come and go and leave in the middle, over the real rules of a queue, with workers that die and a
 * queue that starts again. Time goes in steps of a second; every promise is looked at after each event.
 */

/** Tokens that each answer grows by in a second. */
const RATE = 20;
const TROUBLE_SECONDS = 240;
const DRAIN_SECONDS = 3000;
/** Workers tell so often what has come. */
const LOAD_SECONDS = 2;
const MOST_SLOTS = 5;
const GRACE_SECONDS = 5;

interface Worker {
  name: string;
  capacity: number;
  /** How often its process was started. */
  boots: number;
  /** Null: it is away. */
  connection: FakeConnection | null;
  /** The second in which it is back with what it runs; null: it is there, or dead. */
  backAt: number | null;
  /** Epoch ms until which a queue that started again waits for it to tell what it runs. */
  awaitedUntil: number;
  /** Epoch ms */
  lostAt: number;
  read: number;
  runs: Map<string, Run>;
  /** What it has settled and nobody has acknowledged, by fence. */
  settled: Map<number, Settled>;
}

interface Settled {
  run: Run;
  frame: object;
}

export interface Result {
  violation: { promise: string; message: string } | null;
  /** What was done, in order. */
  lines: string[];
  given: number;
}

export function simulateSharing(seed: number): Result {
  const world = new World(seed);
  try {
    world.run();
  } catch (error) {
    if (!(error instanceof BrokenPromise)) throw error;
    return { violation: error, lines: world.lines, given: world.given };
  }
  return { violation: null, lines: world.lines, given: world.given };
}

class World {
  readonly lines: string[] = [];
  given = 0;
  readonly #random: Random;
  /** Which prompts begin alike. */
  readonly #texts: Random;
  /** Which workers are cut off, and for how long. */
  readonly #faults: Random;
  /** Whose callers hang up while it runs. */
  readonly #breaks: Random;
  readonly #tenants: Tenant[];
  readonly #queue = new QueueHarness({ reconnect_grace_seconds: GRACE_SECONDS });
  readonly #workers: Worker[];
  readonly #jobs = new Map<string, Job>();
  readonly #promises: Promises;
  readonly #budgets = new BudgetPromise(() => this.#queue.nowMs);
  #second = 0;
  #next = 0;

  constructor(seed: number) {
    this.#random = new Random(seed, 'sharing');
    this.#texts = new Random(seed, 'texts');
    this.#faults = new Random(seed, 'faults');
    this.#breaks = new Random(seed, 'breaks');
    this.#tenants = drawTenants(this.#random);
    this.#workers = Array.from({ length: this.#random.int(1, 3) }, (_, index) => ({
      name: `w${index}`,
      capacity: this.#random.int(1, MOST_SLOTS),
      boots: 0,
      connection: null,
      backAt: null,
      awaitedUntil: 0,
      lostAt: 0,
      read: 0,
      runs: new Map(),
      settled: new Map(),
    }));
    this.#promises = new Promises(this.#tenants, {
      jobs: this.#jobs,
      slots: this.#workers.reduce((sum, { capacity }) => sum + capacity, 0),
      rate: RATE,
      now: () => this.#queue.nowMs,
      free: () => this.#free(),
      isWhole: () => this.#workers.every(({ connection }) => connection !== null),
      isKnown: () => this.#workers.every(({ awaitedUntil }) => awaitedUntil <= this.#queue.nowMs),
      standings: () => this.#queue.queue.read('limits').filter(({ tenant }) => tenant === null),
      runs: () => this.#workers.flatMap(({ runs }) => [...runs.values()]),
    });
    for (const tenant of this.#tenants) this.#say(JSON.stringify(tenant));
  }

  run(): void {
    for (const worker of this.#workers) this.#connect(worker);
    while (this.#second < TROUBLE_SECONDS) {
      for (const tenant of this.#tenants) this.#arrive(tenant);
      this.#trouble();
      this.#pass();
    }
    for (const worker of this.#workers) if (worker.connection === null) this.#connect(worker);
    const until = this.#second + DRAIN_SECONDS;
    while ([...this.#jobs.values()].some(({ state }) => state !== 'over') && this.#second < until)
      this.#pass();
    this.#queue.advance(120);
    this.#heard();
    this.#promises.atEnd();
    this.#budgets.atEnd(this.#queue.queue.read('limits'));
  }

  #pass(): void {
    this.#second += 1;
    this.#queue.advance(1);
    this.#heard();
    for (const worker of this.#workers) if (worker.backAt === this.#second) this.#connect(worker);
    for (const worker of this.#workers) this.#generate(worker);
    this.#promises.afterSecond();
  }

  /** What a worker's engine makes in a second. */
  #generate(worker: Worker): void {
    const { connection, runs } = worker;
    if (connection === null) return;
    for (const run of runs.values()) {
      const fresh = Math.min(RATE, run.job.output - run.come);
      run.come += fresh;
      this.#promises.came(run, fresh);
    }
    if (this.#second % LOAD_SECONDS === 0) {
      const generated = [...runs.values()].map(({ fence, come }) => [fence, come]);
      const slots_free = worker.capacity - runs.size;
      const load = { type: 'load', running: runs.size, waiting: 0, kv_cache_usage: 0, slots_free, generated };
      this.#queue.say(connection, load);
      this.#promises.told(new Set(runs.values()));
      this.#heard();
    }
    for (const run of [...runs.values()])
      if (run.come >= run.job.output) this.#settle(worker, run, { counts: true });
  }

  /** @param how whether the queue counts what it tells, an answer or the end of what was cancelled */
  #settle(worker: Worker, run: Run, how: { error?: string; counts: boolean }): void {
    const { job, fence, account, come } = run;
    worker.runs.delete(job.id);
    job.state = 'over';
    this.#promises.ended(run);
    const usage = { prompt_tokens: job.input, completion_tokens: come, model: 'tiny' };
    const ref = { job_id: job.id, fence_token: fence, ...accountOf(account), usage };
    const end = how.error
      ? { type: 'job_error', ...ref, error: how.error, code: 'cancelled', retryable: false }
      : { type: 'job_result', ...ref, result: { ok: true } };
    worker.settled.set(fence, { run, frame: end });
    this.#budgets.settled(run, how.counts);
    this.#queue.say(worker.connection!, end);
    this.#heard();
  }

  #arrive(tenant: Tenant): void {
    const pending = [...this.#jobs.values()].filter(
      (job) => job.tenant === tenant && job.state === 'pending',
    );
    const count = arrivals(tenant, this.#second, pending.length, this.#random);
    for (let n = 0; n < count; n++) {
      const [input, output] = [this.#random.int(1, LONGEST.input), this.#random.int(1, LONGEST.output)];
      const job: Job = {
        id: `${tenant.name}-${++this.#next}`,
        tenant,
        isStored: this.#random.chance(tenant.stored),
        text: this.#texts.chance(0.8) ? this.#texts.int(1, 3) : null,
        input,
        output,
        reserved: Math.ceil((input + LONGEST.output) / (tenant.understates ? 10 : 1)),
        state: 'pending',
      };
      this.#jobs.set(job.id, job);
      this.#submit(job);
    }
    for (const job of pending) if (!job.isStored && this.#random.chance(tenant.leaves / 5)) this.#cancel(job);
    for (const worker of this.#workers)
      for (const run of [...worker.runs.values()])
        if (run.job.tenant === tenant && this.#breaks.chance(tenant.leaves / 5)) this.#breakOff(worker, run);
  }

  #submit(job: Job): void {
    const { id, tenant, reserved } = job;
    const { name, weight, limits } = tenant;
    const all = {
      tenant: name,
      token_name: name,
      weight,
      limits,
      cost: { tokens: reserved },
      prefix: prefixOf(job),
    };
    job.state = 'pending';
    this.#promises.submitted(job);
    if (job.isStored) this.#queue.submit({ id, ...all, max_attempts: 100 });
    else this.#queue.request({ job_id: id, ...all, wait_for_worker_ms: 1e9, wait_for_slot_ms: 1e9 });
    this.#heard();
  }

  #cancel(job: Job): void {
    this.#say(`the caller of ${job.id} leaves`);
    job.state = 'over';
    this.#promises.left(job);
    this.#queue.queue.do('cancel', job.id, job.isStored ? 'cancelled' : 'caller_gone', null);
    this.#heard();
  }

  /** Its worker tells what has come when it hears of it: later, or never, where it is away. */
  #breakOff(worker: Worker, run: Run): void {
    if (run.job.state !== 'running') return;
    if (worker.connection === null) this.#promises.uncounted(run);
    this.#cancel(run.job);
  }

  #trouble(): void {
    if (this.#random.chance(0.02)) {
      const worker = this.#random.pick(this.#workers);
      if (worker.connection !== null) this.#kill(worker);
    }
    for (const worker of this.#workers) {
      if (worker.connection === null && worker.backAt === null && this.#random.chance(0.1))
        this.#connect(worker);
      else if (worker.connection !== null && this.#faults.chance(0.02)) this.#cut(worker);
    }
    if (this.#random.chance(0.01)) this.#restart();
  }

  /** It loses the network, and is back before its grace is over. */
  #cut(worker: Worker): void {
    this.#say(`${worker.name} loses its connection`);
    const { connection } = worker;
    this.#leaves(worker);
    this.#queue.drop(connection!);
    this.#heard();
  }

  #leaves(worker: Worker): void {
    worker.connection = null;
    worker.lostAt = this.#queue.nowMs;
    worker.backAt = this.#second + this.#faults.int(1, GRACE_SECONDS - 2);
  }

  /** It dies, and what it ran comes to nothing: callers ask again, stored jobs are tried again. */
  #kill(worker: Worker): void {
    this.#say(`${worker.name} dies`);
    const { connection, runs } = worker;
    worker.connection = null;
    worker.lostAt = this.#queue.nowMs;
    worker.boots += 1;
    // Should the queue end too before it has written what they used, nobody knows of it.
    for (const { run } of worker.settled.values()) {
      this.#promises.uncounted(run);
      this.#budgets.lost(run);
    }
    worker.settled.clear();
    const lost = [...runs.values()];
    runs.clear();
    for (const run of lost) {
      this.#promises.lost(run);
      this.#budgets.lost(run);
      if (run.job.state === 'running') run.job.state = 'away';
    }
    this.#queue.drop(connection!);
    // A worker that is started again has another boot id: what it had is given out anew.
    this.#heard();
    for (const { job } of lost) if (!job.isStored && job.state === 'away') this.#submit(job);
  }

  /** The process of the queue ends and starts again: workers come back with what they run, callers ask again. */
  #restart(): void {
    this.#say('the queue starts again');
    this.#queue.restart();
    this.#promises.restarted();
    const asked = [...this.#jobs.values()].filter(({ state, isStored }) => state === 'pending' && !isStored);
    for (const job of asked) job.state = 'away';
    const there = this.#workers.filter(({ connection }) => connection !== null);
    for (const worker of this.#workers) {
      const lostAt = worker.connection === null ? worker.lostAt : this.#queue.nowMs;
      worker.awaitedUntil = lostAt + GRACE_SECONDS * 1000;
    }
    // Some are back at once, the others in some seconds.
    for (const worker of there) this.#leaves(worker);
    for (const worker of there) if (this.#faults.chance(0.5)) this.#connect(worker);
    for (const job of asked) if (job.state === 'away') this.#submit(job);
  }

  #connect(worker: Worker): void {
    const { name, capacity, runs, settled } = worker;
    const held = [...runs.values(), ...[...settled.values()].map(({ run }) => run)];
    const jobs = held.map(({ job, fence, account }) => ({
      job_id: job.id,
      fence_token: fence,
      ...accountOf(account),
    }));
    const instance = { boot_id: `${name}-${worker.boots}`, price_per_hour: PRICE };
    worker.read = 0;
    worker.backAt = null;
    worker.awaitedUntil = 0;
    worker.connection = this.#queue.worker(name, { capacity, jobs, instance });
    for (const { frame } of settled.values()) this.#queue.say(worker.connection, frame);
    this.#heard();
  }

  /** What the queue has said to workers. */
  #heard(): void {
    for (let isNew = true; isNew; ) {
      isNew = false;
      for (const worker of this.#workers) {
        const frames = worker.connection?.sent ?? [];
        while (worker.read < frames.length) {
          isNew = true;
          this.#frame(worker, frames[worker.read++]!);
        }
      }
    }
    this.#promises.afterEvent();
  }

  #frame(worker: Worker, frame: Record<string, unknown>): void {
    const run = worker.runs.get(String(frame.job_id));
    if (frame.type === 'job') {
      const job = this.#jobs.get(String(frame.job_id))!;
      job.state = 'running';
      this.given += 1;
      const fresh = { job, fence: Number(frame.fence_token), account: frame.account, come: 0 };
      worker.runs.set(job.id, fresh);
      this.#promises.began(fresh);
      this.#budgets.began(fresh, worker.capacity);
    } else if (frame.type === 'ack') {
      worker.settled.delete(Number(frame.fence_token));
      this.#budgets.acknowledged(Number(frame.fence_token), frame.outcome);
    }
    if (frame.type === 'job_revoked' && run)
      this.#settle(worker, run, { error: 'cancelled', counts: isOver(frame.reason) });
    else if (frame.type === 'registered') {
      // The queue has forgotten in a restart that they were broken off; their relays have not.
      for (const job_id of frame.resumed as string[]) {
        const resumed = worker.runs.get(job_id);
        if (resumed?.job.state === 'over')
          this.#settle(worker, resumed, { error: 'cancelled', counts: false });
      }
      for (const { job_id, reason } of frame.revoked as { job_id: string; reason: string }[]) {
        const revoked = worker.runs.get(job_id);
        worker.runs.delete(job_id);
        // A queue that has started again since may have counted its end without what it used.
        if (revoked && isOver(reason)) this.#settle(worker, revoked, { error: 'cancelled', counts: false });
        else if (revoked) {
          this.#promises.lost(revoked);
          this.#budgets.lost(revoked);
        }
        if (revoked?.job.state === 'running') revoked.job.state = 'away';
      }
    }
  }

  #free(): number {
    return this.#workers.reduce(
      (sum, { connection, capacity, runs }) => sum + (connection === null ? 0 : capacity - runs.size),
      0,
    );
  }

  #say(line: string): void {
    this.lines.push(`${this.#second} s: ${line}`);
  }
}

function isOver(reason: unknown): boolean {
  return reason === 'caller_gone' || reason === 'cancelled';
}

function accountOf(account: unknown): { account?: unknown } {
  return account === undefined ? {} : { account };
}
