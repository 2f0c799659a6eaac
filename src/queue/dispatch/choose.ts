import type { Job } from '../job.ts';
import type { JobExtras } from '../rpc.ts';
import type { Core, Timed } from '../state/state.ts';
import { freeSlots, usableSlots, type Worker } from '../state/worker.ts';

/**
 * A feature's part in deciding which worker gets which job (scorers.ts has all of them). Each member may be left out.
 */
export interface Scorer {
  /** Says whether jobs of this priority may begin in this pool now. */
  opens?(core: Core, configId: string, priority: number): boolean;
  /** Says whether the worker may have the job now. */
  fits?(core: Core, worker: Worker, job: Job): boolean;
  /** Says of the chosen worker whether it can run the job, since the answer takes long: if not, it declines the job. */
  suits?(core: Core, worker: Worker, job: Job): boolean;
  /** Says whether the worker is preferred, however busy it is, to workers for which this is false. */
  prefers?(worker: Worker, job: Wants): boolean;
  /** Rates how well the job does at the worker: the more, the better. A scorer decides where those before it do not. */
  score?(worker: Worker, job: Wants): number;
  /**
   * Says whether the job may do better at one worker than at another, as far as this one shows. Where no scorer says
   * so, `score` is not asked; a scorer with a `score` alone says so of every job.
   */
  differs?(worker: Worker, job: Wants): boolean;
  /** Notes that the worker is given the job. */
  given?(worker: Worker, job: Job): void;
  /** Notes that the job was given to no worker, if it is to be looked at again at some time. */
  unplaced?(core: Core, job: Job): void;
  /** Makes ready, before a dispatch pass, what `opens` or `fits` held back and may go now. */
  reopen?(core: Core): void;
  /** Makes ready, when its time has come, what `fits` held back. */
  timed?: Timed;
}

/** The properties of a job that decide at which of several workers it does best. */
export interface Wants {
  /** The model that the job asks for; null: any. */
  model: string | null;
  extras: Pick<JobExtras, 'prefix'>;
  /** The workers at which attempts of the job failed; stored jobs do not say. */
  failed_at?: readonly string[];
}

export const WANTS_NOTHING: Wants = { model: null, extras: {} };

/** The most waiting jobs that are considered for a slot. */
export const MOST_LOOKED_AT = 16;

/** A job may be passed over this many times: in a full pool it waits for the ends of eight more jobs. */
export const MOST_PASSED_OVER = 8;

/** The properties of a waiting job that decide whether it gets the free slot. */
interface Waiting extends Wants {
  passed_over: number;
}

/** Asks all scorers, in the order of their table. */
export class Scorers {
  readonly #opens;
  readonly #fits;
  readonly #suits;
  readonly #prefers;
  readonly #score;
  readonly #differs;
  readonly #given;
  readonly #unplaced;
  readonly #reopen;
  readonly timed: readonly Timed[];

  constructor(table: readonly Scorer[]) {
    this.#opens = table.flatMap(({ opens }) => opens ?? []);
    this.#fits = table.flatMap(({ fits }) => fits ?? []);
    this.#suits = table.flatMap(({ suits }) => suits ?? []);
    this.#prefers = table.flatMap(({ prefers }) => prefers ?? []);
    this.#score = table.flatMap(({ score }) => score ?? []);
    this.#differs = table.flatMap(({ differs, score }) => differs ?? (score ? () => true : []));
    this.#given = table.flatMap(({ given }) => given ?? []);
    this.#unplaced = table.flatMap(({ unplaced }) => unplaced ?? []);
    this.#reopen = table.flatMap(({ reopen }) => reopen ?? []);
    this.timed = table.flatMap(({ timed }) => timed ?? []);
  }

  /** Says whether jobs of this priority may begin in the pool now. */
  isOpen(core: Core, configId: string, priority: number): boolean {
    for (const opens of this.#opens) if (!opens(core, configId, priority)) return false;
    return true;
  }

  /** Says whether the worker, which serves the job's model, may have the job now. */
  fits(core: Core, worker: Worker, job: Job): boolean {
    if (worker.declined.has(job.id)) return false;
    for (const fits of this.#fits) if (!fits(core, worker, job)) return false;
    return true;
  }

  /** Says whether the worker, which was chosen, cannot run the job and has declined it now. */
  isDeclined(core: Core, worker: Worker, job: Job): boolean {
    if (this.#suits.every((suits) => suits(core, worker, job))) return false;
    worker.declined.add(job.id);
    return true;
  }

  /** Says whether the job may do better at one worker than at another, as far as this one shows. */
  mayDiffer(worker: Worker, job: Wants): boolean {
    for (const differs of this.#differs) if (differs(worker, job)) return true;
    return false;
  }

  /** Notes that the worker is given the job. */
  given(worker: Worker, job: Job): void {
    for (const given of this.#given) given(worker, job);
  }

  /** Notes that the job was given to no worker. */
  unplaced(core: Core, job: Job): void {
    for (const unplaced of this.#unplaced) unplaced(core, job);
  }

  /** Makes ready, before a dispatch pass, what was held back and may go now. */
  reopen(core: Core): void {
    for (const reopen of this.#reopen) reopen(core);
  }

  /**
   * Chooses the best worker of those that fit and have a free slot. Of the preferred ones that are not much busier than
   * the least loaded, it is the one at which the job does best, else the least loaded; of equals, the first. So an
   * adapter, or a beginning of prompts, that many jobs ask for is soon at several workers.
   */
  chooseWorker(
    workers: readonly Worker[],
    mayHave: (worker: Worker) => boolean,
    wants: Wants = WANTS_NOTHING,
  ): Worker | null {
    let able = workers.filter((worker) => freeSlots(worker) > 0 && mayHave(worker));
    if (able.length < 2) return able[0] ?? null;
    let least = leastLoaded(able);
    // Nearly every job does as well at one worker as at another, and the least loaded one is as good as any.
    const isPreferred = this.#prefers.every((prefers) => prefers(least, wants));
    if (isPreferred && !able.some((worker) => this.mayDiffer(worker, wants))) return least;
    for (const prefers of this.#prefers) {
      const preferred = able.filter((worker) => prefers(worker, wants));
      if (preferred.length > 0) able = preferred;
    }
    least = leastLoaded(able);
    let best = least;
    for (const worker of able) {
      if (worker === least || !mayBePreferred(worker, least)) continue;
      const gain = this.#compare(worker, best, wants);
      if (gain > 0 || (gain === 0 && shareInUse(worker) < shareInUse(best))) best = worker;
    }
    return best;
  }

  /** Compares two workers for a job: above 0 where the job does better at the first, below 0 where it does worse. */
  #compare(one: Worker, other: Worker, job: Wants): number {
    for (const score of this.#score) {
      const gain = score(one, job) - score(other, job);
      if (gain !== 0) return gain;
    }
    return 0;
  }

  /**
   * Chooses which of the first waiting jobs gets a slot of this worker: the first that does not do better at one of the
   * other workers, so that no worker passes over a new prompt; if all do better elsewhere, the first. The jobs before
   * the chosen one are counted as passed over once more.
   * @param line the first waiting jobs in the order of dispatch, never empty
   */
  chooseWaiting<J extends Waiting>(line: readonly J[], worker: Worker, rivals: readonly Worker[]): J {
    const [first] = line;
    for (const [index, job] of line.entries()) {
      if (this.isPassedOver(job, worker, rivals)) continue;
      for (const passed of line.slice(0, index)) passed.passed_over += 1;
      return job;
    }
    return first!;
  }

  /** Returns the other workers of the worker's pool that a job may be left to. @param workers all connected workers */
  rivalsOf(worker: Worker, workers: readonly Worker[]): Worker[] {
    const { config_id } = worker.session;
    return workers.filter(
      (other) =>
        other !== worker &&
        other.session.config_id === config_id &&
        usableSlots(other) > 0 &&
        this.#prefers.every((prefers) => prefers(other, WANTS_NOTHING)),
    );
  }

  /** Says whether the job is left to another worker: it does better there, and has not been passed over too often. */
  isPassedOver(job: Waiting, worker: Worker, rivals: readonly Worker[]): boolean {
    return (
      job.passed_over < MOST_PASSED_OVER && rivals.some((rival) => this.#compare(rival, worker, job) > 0)
    );
  }
}

/**
 * A worker is chosen for its score as long as it has at most twice the load of the least loaded one, and two jobs more.
 * Beyond that the job goes to another worker, which is warm from then on: so a beginning that all prompts have is soon
 * everywhere, and then decides nothing. The factor is two since with a smaller one conversations would move when load
 * differs by chance alone; the two jobs are added since, where little runs, jobs beside each other do not slow each
 * other down.
 */
const TIMES_LEAST = 2;
const MORE_JOBS = 2;

function mayBePreferred(worker: Worker, least: Worker): boolean {
  return shareInUse(worker) <= TIMES_LEAST * shareInUse(least) + MORE_JOBS / worker.session.capacity;
}

/** Returns the first of the least loaded workers. @param workers never empty */
function leastLoaded(workers: readonly Worker[]): Worker {
  let least = workers[0]!;
  for (const worker of workers) if (shareInUse(worker) < shareInUse(least)) least = worker;
  return least;
}

/** Returns the share of the worker's slots that are in use. */
function shareInUse({ running, session }: Worker): number {
  return running.size / session.capacity;
}

/** Returns the one that was created first, the first of equals; null where both are null. */
export function olderOf<A extends Created, B extends Created>(one: A | null, other: B | null): A | B | null {
  if (one === null || other === null) return one ?? other;
  return one.created_at <= other.created_at ? one : other;
}

interface Created {
  /** The time of creation, epoch ms. */
  created_at: number;
}
