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
  /** Says whether the worker is preferred, however busy it is, to those of which this is false. */
  prefers?(worker: Worker, job: Wants): boolean;
  /** Rates how well the job does at the worker: the more, the better. A scorer decides where those before it do not. */
  score?(worker: Worker, job: Wants): number;
  /** Says whether the job may do better at one worker than at another, as far as this one shows. */
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

type Scorers = readonly Scorer[];

/** The properties of a job that decide at which of several workers it does best. */
export interface Wants {
  /** The model that the job asks for; null: any. */
  model: string | null;
  extras: Pick<JobExtras, 'prefix'>;
  /** The workers at which attempts of the job failed; stored jobs do not say. */
  failed_at?: readonly string[];
}

export const WANTS_NOTHING: Wants = { model: null, extras: {} };

/**
 * Chooses the best worker of those that fit and have a free slot: of the preferred ones that are not much busier than
 * the least loaded it is the one at which the job does best, else the least loaded; the first of equals. So an adapter
 * or a beginning of prompts that many ask for is soon at several workers.
 */
export function chooseWorker(
  scorers: Scorers,
  workers: readonly Worker[],
  fits: (worker: Worker) => boolean,
  wants: Wants = WANTS_NOTHING,
): Worker | null {
  let able = workers.filter((worker) => freeSlots(worker) > 0 && fits(worker));
  if (able.length < 2) return able[0] ?? null;
  for (const scorer of scorers) {
    if (scorer.prefers === undefined) continue;
    const preferred = able.filter((worker) => scorer.prefers?.(worker, wants));
    if (preferred.length > 0) able = preferred;
  }
  let least = able[0]!;
  for (const worker of able) if (shareInUse(worker) < shareInUse(least)) least = worker;
  let best = least;
  for (const worker of able) {
    if (worker === least || !mayBePreferred(worker, least)) continue;
    const gain = compare(scorers, worker, best, wants);
    if (gain > 0 || (gain === 0 && shareInUse(worker) < shareInUse(best))) best = worker;
  }
  return best;
}

/** Says whether the job may do better at one worker than at another, as far as this one shows. */
export function mayDiffer(scorers: Scorers, worker: Worker, job: Wants): boolean {
  for (const scorer of scorers) if (scorer.differs?.(worker, job)) return true;
  return false;
}

/** Compares two workers for a job: above 0 where the job does better at the first, below 0 where it does worse. */
function compare(scorers: Scorers, one: Worker, other: Worker, job: Wants): number {
  for (const scorer of scorers) {
    if (scorer.score === undefined) continue;
    const gain = scorer.score(one, job) - scorer.score(other, job);
    if (gain !== 0) return gain;
  }
  return 0;
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

/** Returns the share of the worker's slots that are in use. */
function shareInUse({ running, session }: Worker): number {
  return running.size / session.capacity;
}

/** The most waiting jobs that are considered for a slot. */
export const MOST_LOOKED_AT = 16;

/** A job may be passed over this many times: in a full pool it waits for the ends of eight more jobs. */
export const MOST_PASSED_OVER = 8;

/** The properties of a waiting job that `chooseWaiting` depends on. */
interface Waiting extends Wants {
  passed_over: number;
}

/**
 * Chooses which of the first waiting jobs gets a slot of this worker: the first that does not do better at one of the
 * other workers, so that a new prompt is passed over by none; if all do better elsewhere, the first. The jobs before
 * the chosen one are counted as passed over once more.
 * @param line the first waiting jobs in the order of dispatch, never empty
 */
export function chooseWaiting<J extends Waiting>(
  scorers: Scorers,
  line: readonly J[],
  worker: Worker,
  rivals: readonly Worker[],
): J {
  const [first] = line;
  for (const [index, job] of line.entries()) {
    if (isPassedOver(scorers, job, worker, rivals)) continue;
    for (const passed of line.slice(0, index)) passed.passed_over += 1;
    return job;
  }
  return first!;
}

/** Returns the other workers of the worker's pool that a job may be left to. @param workers all connected workers */
export function rivalsOf(scorers: Scorers, worker: Worker, workers: readonly Worker[]): Worker[] {
  const { config_id } = worker.session;
  const isPreferred = (other: Worker) =>
    scorers.every(({ prefers }) => prefers === undefined || prefers(other, WANTS_NOTHING));
  return workers.filter(
    (other) =>
      other !== worker &&
      isPreferred(other) &&
      other.session.config_id === config_id &&
      usableSlots(other) > 0,
  );
}

/** Says whether the job is left to another worker: it does better there, and has not been passed over too often. */
export function isPassedOver(
  scorers: Scorers,
  job: Waiting,
  worker: Worker,
  rivals: readonly Worker[],
): boolean {
  return (
    job.passed_over < MOST_PASSED_OVER && rivals.some((rival) => compare(scorers, rival, worker, job) > 0)
  );
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
