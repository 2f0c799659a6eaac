import type { Charge } from '../../admission/charge.ts';
import type { CanaryShare } from '../../fleet/rpc.ts';
import {
  type AdapterState,
  BASE_WORKER,
  EXTENDED_WORKER,
  type Load,
  type WorkerProfile,
} from '../../protocol/index.ts';
import { isBatchWork, type Job, type WaitingJob } from '../job.ts';
import type { Prefix } from '../rpc.ts';
import type { Connection, Session } from '../store/ports.ts';
import type { Served } from '../store/session-table.ts';

/** A registered worker and the jobs it holds. A worker id has one live connection: the newest. */
export interface Worker {
  connection: Connection;
  session: Session;
  models: string[];
  /** Fence token of each job that the worker runs, by job id. */
  running: Map<string, number>;
  /** Ids of the running jobs that are batch work. */
  batchJobs: Set<string>;
  load: Load | null;
  /** The adapters that the worker can load, and has loaded; null if it loads none. */
  adapters: AdapterState | null;
  /** Adapters of the running jobs, by job id; the worker loads one that it has not loaded yet. */
  adapterJobs: Map<string, string>;
  /**
   * The most jobs that the worker takes by its own word: those it ran when its last `load` frame came, and
   * `slots_free`. Each dispatch uses one of these up and each end gives one back; null before the first frame.
   */
  ceiling: number | null;
  /**
   * Jobs that the worker released because it cannot meet their deadline at its present load; for a base worker, those
   * that it leaves to others.
   */
  declined: Set<string>;
  /** Prompts that the worker's engine has computed, as the queue supposes. */
  prefixes: PrefixCache;
  /**
   * Share of each running job's prompt that the engine supposedly had when the job came, by job id; no entry means 0.
   */
  predicted: Map<string, number>;
  /** The charges to the tenants of the running jobs, by fence token. */
  charges: Map<number, Charge<WaitingJob>>;
  /** Epoch ms from which on the slot time of each running attempt is not counted yet, by fence token. */
  heldSince: Map<number, number>;
  /** Whether an extended peer let a lease run out and has said nothing since: it gets no job until it does. */
  unresponsive: boolean;
  /**
   * Whether the scheduler wants the worker to end: it gets no more jobs and finishes its own, unaware of the cordon.
   */
  cordoned: boolean;
  /** The trial of a new version in the worker's pool (dispatch/canaries.ts); null: there is none. */
  canary: Canary | null;
}

/** A new version of a pool that is given a part of its requests, and the requests since the queue knows of that. */
export interface Canary extends CanaryShare {
  requests: number;
  /** The requests among them that the new version got. */
  given: number;
  /**
   * When the queue looks again, epoch ms, at jobs that wait for the others although the new version has a slot; null:
   * there are none.
   */
  looksAt: number | null;
}

/** The facts that determine the models that a worker serves. */
export interface Serving {
  session: Pick<Session, 'worker_id' | 'config_id'>;
  models: string[];
}

/** Whether the worker takes no more jobs and is on its way out. */
export function isLeaving({ session, cordoned }: Worker): boolean {
  return session.draining || cordoned;
}

/** Returns how many slots may be filled now. */
export function freeSlots(worker: Worker): number {
  return Math.max(0, usableSlots(worker) - worker.running.size);
}

/** Returns how many slots run something or may be filled now; 0 where nothing more is given to the worker. */
export function usableSlots(worker: Worker): number {
  const { session, unresponsive, ceiling } = worker;
  if (session.paused || isLeaving(worker) || unresponsive) return 0;
  return Math.min(session.capacity, ceiling ?? session.capacity);
}

/**
 * Whether the worker's engine shares a GPU that another engine has, or gets next: a job given to the worker waits, and
 * makes it ask for its turn.
 */
export function awaitsTurn({ load }: Worker): boolean {
  return load?.awaits_turn === true;
}

/**
 * Notes that the worker runs this attempt, until its slot is freed (`Workers.freeSlot`).
 * @param since epoch ms from which on its time is to be counted
 */
export function occupySlot(
  worker: Worker,
  job: Pick<Job, 'id' | 'fence_token' | 'priority' | 'model'>,
  since: number,
): void {
  worker.running.set(job.id, job.fence_token);
  worker.heldSince.set(job.fence_token, since);
  const adapter = adapterOf(worker, job.model);
  if (adapter !== null) worker.adapterJobs.set(job.id, adapter);
  if (isBatchWork(job)) worker.batchJobs.add(job.id);
}

/**
 * Takes the gauges that a worker reports. A frame that crossed a dispatch says too much, and the worker releases what
 * it cannot take; one that crossed a revocation says too little, until the next frame a second later.
 */
export function setLoad(worker: Worker, load: Load): void {
  const eased =
    worker.load && (load.slots_free > worker.load.slots_free || load.waiting < worker.load.waiting);
  if (eased) worker.declined.clear();
  // An engine that sleeps drops what it has computed.
  if (load.awaits_turn) worker.prefixes.clear();
  worker.load = load;
  worker.ceiling = worker.running.size + load.slots_free;
}

/** Whether a worker answers to a model name: one its engine serves, or its pool's own name. */
export function servesModel({ session, models }: Serving, model: string): boolean {
  return session.config_id === model || models.includes(model);
}

/** Whether the worker may run a job for this model, now or when a slot frees. @param model null for any */
export function mayRun(worker: Serving, model: string | null): boolean {
  return model === null || servesModel(worker, model);
}

/** Returns the adapter that a model's name means at this worker; null if it means none. */
export function adapterOf({ adapters }: Worker, model: string | null): string | null {
  return model !== null && adapters?.names.includes(model) ? model : null;
}

/** Creates a worker that has just registered, or whose session was read back. It runs nothing yet. */
export function newWorker(connection: Connection, session: Session, { models, adapters }: Served): Worker {
  return {
    connection,
    session,
    models,
    adapters,
    running: new Map(),
    batchJobs: new Set(),
    load: null,
    adapterJobs: new Map(),
    ceiling: null,
    declined: new Set(),
    prefixes: new PrefixCache(),
    predicted: new Map(),
    charges: new Map(),
    heldSince: new Map(),
    unresponsive: false,
    cordoned: false,
    canary: null,
  };
}

/** Returns how the worker's protocol differs from the others. */
export function profileOf({ session }: { session: Pick<Session, 'extended'> }): WorkerProfile {
  return session.extended ? EXTENDED_WORKER : BASE_WORKER;
}

/**
 * The most hashes remembered of one worker: about as much text as fits into the cache of an engine, 2 MiB in prompts of
 * a few kilobytes. They take 200 kB of memory.
 */
const MOST_HASHES = 4096;

/**
 * The newest prompts and conversations that the queue gave to a worker and that its engine's cache supposedly still
 * holds. They are forgotten with the worker's process, since the engine's cache is gone then too.
 */
class PrefixCache {
  /**
   * Hashes in the order of use. A block is never older than those after it in a prompt, so what is left is a beginning.
   */
  readonly #hashes = new Set<number>();

  /** Notes that the worker computes this prompt now. */
  add({ session, hashes }: Prefix): void {
    for (let at = hashes.length - 1; at >= 0; at--) this.#touch(hashes[at]!);
    if (session !== 0) this.#touch(session);
    for (const oldest of this.#hashes) {
      if (this.#hashes.size <= MOST_HASHES) return;
      this.#hashes.delete(oldest);
    }
  }

  /** Forgets all hashes, since the engine's cache is empty. */
  clear(): void {
    this.#hashes.clear();
  }

  hasSession({ session }: Prefix): boolean {
    return session !== 0 && this.#hashes.has(session);
  }

  /** Returns how many blocks of the prompt, from the first, the cache has. */
  blocksOf({ hashes }: Prefix): number {
    let [known, unknown] = [0, hashes.length];
    while (known < unknown) {
      const middle = (known + unknown) >> 1;
      if (this.#hashes.has(hashes[middle]!)) known = middle + 1;
      else unknown = middle;
    }
    return known;
  }

  #touch(hash: number): void {
    this.#hashes.delete(hash);
    this.#hashes.add(hash);
  }
}
