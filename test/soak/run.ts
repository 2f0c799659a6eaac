import { setTimeout as sleep } from 'node:timers/promises';
import type { JobView } from '../../src/protocol/index.ts';
import { Random } from '../support/random.ts';
import { SoakBatch } from './batch.ts';
import { Callers } from './callers.ts';
import { SoakEndpoint } from './endpoint.ts';
import { type FaultKind, Faults } from './faults.ts';
import type { FigureRow } from './figures.ts';
import { JobBook, look, movedFrom, readLedger } from './jobs.ts';
import { processesOf } from './proc.ts';
import { SoakRoad } from './road.ts';
import { readTables } from './tables.ts';
import { type Counts, wrongCharges } from './verdict.ts';

export interface SoakOptions {
  jobs: number;
  faults: number;
  seed: number;
  workers: number;
  /** Faults of these kinds alone; left out, all. */
  only?: FaultKind[];
  /** Gets a line every few seconds. */
  say(line: string): void;
}

export interface SoakReport {
  counts: Counts;
  figures: FigureRow[];
  /** Where the processes' output was written; null when all is well. */
  logs: string | null;
}

/** Jobs that are accepted and not settled are kept at about this many: what callers ask waits behind them. */
const BACKLOG = 80;
/** Faults follow the jobs' progress, but not faster than this, ms. */
const FAULT_SPACING_MS = 300;
/** No progress for this long is the end of a run, ms. Longer than any retry delay. */
const STUCK_MS = 180_000;
/** One caller for so many jobs, and no more of them at a time than this. */
const JOBS_PER_CALLER = 10;
const CALLERS_AT_A_TIME = 30;
/** One line of a batch for so many jobs. */
const JOBS_PER_LINE = 10;
/** One job of RunPod's form for so many jobs. */
const JOBS_PER_ENDPOINT_JOB = 10;
/** What was aborted leaves its engine within this, ms. */
const ABORTED_WITHIN_MS = 10_000;
const SAY_EVERY_MS = 5000;

/** What is known of the queue at the moment. */
interface Sight {
  /** Jobs that were settled for certain. */
  settled: number;
  open: number;
  running: Map<string, number>;
}

/** One soak: a real queue, jobs through it, faults all along; then peace, and the count. */
export class Soak {
  readonly #options: SoakOptions;
  readonly #road: SoakRoad;
  readonly #book: JobBook;
  readonly #callers: Callers;
  readonly #batch: SoakBatch;
  readonly #endpoint: SoakEndpoint;
  readonly #faults: Faults;
  readonly #startedAt = Date.now();
  #sight: Sight = { settled: 0, open: 0, running: new Map() };
  #over = false;
  /** Attempts charged, over all jobs. */
  #charged = 0;
  /** Jobs whose answer was begun by the engine of another worker than the one that settled it. */
  #moved = 0;

  private constructor(options: SoakOptions, chance: Random, road: SoakRoad) {
    const random = () => chance.next();
    this.#options = options;
    this.#road = road;
    this.#book = new JobBook(options.jobs, road.mark, road.hooks.url, random);
    const workers = road.workers.map(({ id }) => id);
    const lines = Math.ceil(options.jobs / JOBS_PER_LINE);
    this.#batch = new SoakBatch(road.queueUrl, workers, lines, road.mark, random);
    const endpointJobs = Math.ceil(options.jobs / JOBS_PER_ENDPOINT_JOB);
    this.#endpoint = new SoakEndpoint(road.queueUrl, endpointJobs, road.mark, random);
    this.#callers = new Callers(road.queueUrl, workers, road.mark, random);
    this.#faults = new Faults(road, chance, options.only);
  }

  static async run(options: SoakOptions): Promise<SoakReport> {
    const random = new Random(options.seed, 'soak');
    const road = await SoakRoad.start(options.workers, () => random.next());
    const soak = new Soak(options, random, road);
    return await soak.#run();
  }

  get #settled(): number {
    return this.#sight.settled;
  }

  async #run(): Promise<SoakReport> {
    const watching = Promise.all([this.#watch(), this.#sample(), this.#tell()]);
    let stuck: string | null = null;
    try {
      const mayGoOn = () => this.#book.accepted - this.#settled < BACKLOG;
      const submitting = Promise.all([1, 2].map(() => this.#book.submitAll(this.#road.callersUrl, mayGoOn)));
      const besides = Promise.all([this.#batch.run(), this.#endpoint.run()]);
      const trouble = Promise.all([submitting, this.#strikeAll(), this.#callAll()]);
      await Promise.race([trouble, this.#stuck()]);
      await this.#faults.over();
      await Promise.race([Promise.all([this.#callers.ended(), besides, this.#quiet()]), this.#stuck()]);
    } catch (error) {
      stuck = (error as Error).message;
    }
    const counts = await this.#count(stuck);
    this.#over = true;
    await watching;
    await this.#road.stop();
    const tables = readTables(this.#road.stateDir);
    counts.leftovers.push(...tables.leftovers, ...this.#road.spooled());
    counts.processesLeft.push(...(await this.#processesLeft()));
    const isClean = Object.values(counts).every((found) => found.length === 0);
    const logs = isClean ? null : this.#road.writeLogs(this.#faults.done);
    const figures = this.#figures(tables.jobs);
    if (isClean) this.#road.remove();
    return { counts, figures, logs };
  }

  /** Faults keep step with the jobs: fault k comes when k of all parts of the jobs are settled. */
  async #strikeAll(): Promise<void> {
    const { faults, jobs } = this.#options;
    for (let done = 0; done < faults; ) {
      await sleep(FAULT_SPACING_MS);
      if (this.#settled < (done * jobs) / (faults + 1)) continue;
      if (this.#faults.strike(this.#sight.running)) done += 1;
    }
  }

  /** Callers keep step with the jobs as the faults do. */
  async #callAll(): Promise<void> {
    const { jobs } = this.#options;
    const callers = Math.ceil(jobs / JOBS_PER_CALLER);
    while (this.#callers.started < callers) {
      await sleep(50);
      const isDue = this.#settled >= (this.#callers.started * jobs) / (callers + 1);
      if (isDue && this.#callers.open < CALLERS_AT_A_TIME) this.#callers.start();
    }
  }

  async #watch(): Promise<void> {
    while (!this.#over) {
      const { accepted } = this.#book;
      const [health, views] = await Promise.all([this.#health(), this.#road.views().catch(() => null)]);
      if (health) {
        // What was accepted meanwhile may be counted as open already.
        this.#sight.open = health.pending + health.running;
        this.#sight.settled = Math.max(this.#sight.settled, accepted - this.#sight.open);
      }
      if (views) this.#sight.running = new Map(views.map((view) => [view.worker_id, view.running]));
      await sleep(250);
    }
  }

  async #health(): Promise<{ pending: number; running: number } | null> {
    return await fetch(`${this.#road.queueUrl}/health`, { signal: AbortSignal.timeout(5000) }).then(
      (response) => response.json() as Promise<{ pending: number; running: number }>,
      () => null,
    );
  }

  /** Settled jobs are looked at again while the road is under fire. */
  async #sample(): Promise<void> {
    while (!this.#over) {
      const views = await Promise.all(this.#book.sample(10).map((id) => look(this.#road.queueUrl, id)));
      for (const view of views) if (view) this.#book.see(view);
      await sleep(400);
    }
  }

  async #tell(): Promise<void> {
    const { say, jobs, faults } = this.#options;
    for (let next = Date.now() + SAY_EVERY_MS; !this.#over; await sleep(200)) {
      if (Date.now() < next) continue;
      next += SAY_EVERY_MS;
      const running = [...this.#sight.running].map(([id, count]) => `${id}:${count}`).join(' ');
      const seconds = Math.round((Date.now() - this.#startedAt) / 1000);
      say(
        `${seconds} s: ${this.#settled} of ${jobs} settled, ${this.#sight.open} open (${running}), ` +
          `${this.#callers.started} callers, ${this.#callers.open} of them open, ${this.#batch.done} lines, ` +
          `${this.#endpoint.done} endpoint jobs, ` +
          `${this.#faults.done.length} of ${faults} faults, ${this.#book.resubmissions} resubmissions`,
      );
    }
  }

  /** @throws Error when nothing has moved for long */
  async #stuck(): Promise<never> {
    let last = '';
    let since = Date.now();
    for (;;) {
      await sleep(1000);
      const now =
        `${this.#settled} settled, ${this.#sight.open} open, ${this.#callers.open} of ` +
        `${this.#callers.started} callers open, ${this.#batch.done} lines, ${this.#endpoint.done} endpoint jobs, ${this.#faults.done.length} faults`;
      if (now !== last) since = Date.now();
      last = now;
      if (this.#over) return new Promise(() => {});
      if (Date.now() - since > STUCK_MS) throw new Error(`no progress for ${STUCK_MS / 1000} s at ${now}`);
    }
  }

  /** Waits until nothing is open and nothing runs, twice in a row. */
  async #quiet(): Promise<void> {
    for (let calm = 0; calm < 2; ) {
      await sleep(500);
      const health = await this.#health();
      calm = health && health.pending + health.running === 0 ? calm + 1 : 0;
    }
  }

  async #count(stuck: string | null): Promise<Counts> {
    const counts: Counts = {
      lost: [],
      wrongAnswers: [],
      largeResultsWrong: [],
      streamsWrong: [],
      linesWrong: stuck === null ? await this.#batch.problems() : [],
      endpointWrong: stuck === null ? this.#endpoint.problems() : [],
      hooksWrong: [],
      settledTwice: [],
      wronglyCharged: [],
      leftovers: stuck === null ? [] : [stuck],
      processesLeft: [],
    };
    counts.lost.push(...this.#book.refused);
    await this.#readAll(async (id, view) => {
      if (view) this.#book.see(view);
      if (view?.state !== 'succeeded')
        counts.lost.push(`${id}: ${view?.state} ${JSON.stringify(view?.error)}`);
      else if (!(await this.#isRight(view))) {
        (this.#book.isLargeResult(id) ? counts.largeResultsWrong : counts.wrongAnswers).push(id);
      }
      if (view && (view.attempts > 1 || view.attempt_errors.length > 0)) {
        counts.wronglyCharged.push(...(await this.#chargesOf(view)));
      }
    });
    const views = new Map<string, JobView>();
    await this.#readAll(async (id, view) => {
      if (!view) return;
      this.#book.see(view);
      views.set(id, view);
    });
    await this.#road.hooks.untilTold(views.size);
    counts.hooksWrong.push(...this.#road.hooks.problems(views));
    counts.settledTwice.push(...this.#book.settledTwice);
    for (const { worker_id, running } of await this.#road.views()) {
      if (running > 0) counts.leftovers.push(`${running} slots of ${worker_id} are taken by nothing`);
    }
    counts.leftovers.push(...(await this.#enginesAtWork()));
    counts.streamsWrong.push(...this.#callers.count(this.#faults.done));
    return counts;
  }

  /** Nobody waits for anything any more: what an engine does now, it does for nobody. */
  async #enginesAtWork(): Promise<string[]> {
    for (const from = Date.now(); ; await sleep(250)) {
      const asked = this.#road.workers.map(async (worker) => {
        const requests = await this.#road.engineRequests(worker).catch(String);
        return requests === 0 ? [] : [`requests in the engine of ${worker.id}: ${requests}`];
      });
      const left = (await Promise.all(asked)).flat();
      if (left.length === 0 || Date.now() - from > ABORTED_WITHIN_MS) return left;
    }
  }

  /** Reads the ledger only of an answer that the engine of another worker began. */
  async #isRight(view: JobView): Promise<boolean> {
    if (this.#book.isRight(view)) return true;
    const ledger = await readLedger(this.#road.queueUrl, view.id);
    const isMoved = ledger !== null && this.#book.isRight(view, movedFrom(ledger));
    if (isMoved) this.#moved += 1;
    return isMoved;
  }

  async #chargesOf(view: JobView): Promise<string[]> {
    this.#charged += view.attempt_errors.length;
    const ledger = await readLedger(this.#road.queueUrl, view.id);
    return ledger ? wrongCharges(view, ledger, this.#faults.done) : [`${view.id}: it has no ledger`];
  }

  async #readAll(each: (id: string, view: JobView | null) => Promise<void>): Promise<void> {
    const ids = this.#book.ids.values();
    const read = async () => {
      for (const id of ids) await each(id, await look(this.#road.queueUrl, id));
    };
    await Promise.all(Array.from({ length: 8 }, read));
  }

  /** Ends take a moment: what is still there after it stays. */
  async #processesLeft(): Promise<string[]> {
    for (let tries = 0; ; tries++) {
      const left = processesOf(this.#road.mark, this.#road.folder);
      if (left.length === 0 || tries === 20) return left.map(({ pid, command }) => `${pid} ${command}`);
      await sleep(250);
    }
  }

  #figures(rows: number): SoakReport['figures'] {
    const starts = this.#road.workers.reduce((sum, { kept }) => sum + kept.starts - 1, 0);
    return [
      ['seed', this.#options.seed],
      ['seconds', Math.round((Date.now() - this.#startedAt) / 1000)],
      ['jobs accepted', this.#book.accepted],
      ['rows in the jobs table', rows],
      ...this.#faults.figures(),
      ['worker containers started again', starts],
      ['queue started again', this.#road.queue.starts - 1],
      ['submissions made again', this.#book.resubmissions],
      ['attempts charged to jobs', this.#charged],
      ['answers begun by the engine of another worker', this.#moved],
      ['large payloads of jobs', this.#book.countOf('large_payload')],
      ['large results of jobs', this.#book.countOf('large_result')],
      ...this.#batch.figures(),
      ...this.#endpoint.figures(),
      ['webhooks posted again', this.#road.hooks.again],
      ...this.#callers.figures(),
    ];
  }
}
