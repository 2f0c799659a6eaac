import type { CanaryShare } from '../../fleet/rpc.ts';
import type { Connection } from '../store/ports.ts';
import type { ReadySet } from './ready-set.ts';
import { type Canary, isLeaving, profileOf, type Serving, type Worker } from './worker.ts';

/** A worker that lost its connection and may be back. */
interface Away {
  serving: Serving;
  /** The worker as it was; null if the queue has restarted since it was connected. */
  worker: Worker | null;
  /** Epoch ms until which the worker may be back. */
  until: number;
}

const NO_MODELS: ReadonlySet<string> = new Set();

/** Workers with an open socket, by connection and by id, and workers that lost theirs and may reconnect. */
export class Workers {
  readonly #ready: ReadySet;
  readonly #byConnection = new Map<string, Worker>();
  readonly #byId = new Map<string, Worker>();
  /** Workers that may reconnect, by worker id. */
  readonly #away = new Map<string, Away>();
  /** Ids of workers that get no more jobs, whether or not they are connected. */
  #cordon: ReadonlySet<string> = new Set();
  /** The versions that are tried, by pool. */
  readonly #canaries = new Map<string, Canary>();

  /**
   * Epoch ms before which a worker's silence is no sign of death: the queue stood still, and its clock may have leapt.
   */
  silenceCountsFrom = 0;

  /** The models that each pool serves, as last computed; null if nobody has asked yet. */
  #models: { changes: number; until: number; byPool: Map<string, Set<string>> } | null = null;

  /**
   * Counts every arrival, departure, start of a drain and cordon; each makes what was computed from all workers stale.
   */
  changes = 0;

  constructor(ready: ReadySet) {
    this.#ready = ready;
  }

  add(worker: Worker): void {
    this.changes += 1;
    worker.cordoned = this.#cordon.has(worker.session.worker_id);
    worker.canary = this.#canaries.get(worker.session.config_id) ?? null;
    this.#byConnection.set(worker.connection.id, worker);
    this.#byId.set(worker.session.worker_id, worker);
    this.#away.delete(worker.session.worker_id);
  }

  /** Replaces the cordon: these workers get no more jobs. @returns whether that changes anything */
  cordon(workerIds: readonly string[]): boolean {
    const ids = new Set(workerIds);
    if (ids.size === this.#cordon.size && workerIds.every((id) => this.#cordon.has(id))) return false;
    this.changes += 1;
    this.#cordon = ids;
    for (const worker of this.#byId.values()) {
      worker.cordoned = ids.has(worker.session.worker_id);
      if (!worker.cordoned) this.#ready.worker(worker);
    }
    return true;
  }

  /** The versions that are tried. */
  get canaries(): Iterable<Canary> {
    return this.#canaries.values();
  }

  /** Replaces the versions that are tried on a part of their pools' requests. What is counted of one goes on. */
  try(shares: readonly CanaryShare[]): void {
    for (const [configId, { version, share }] of this.#canaries) {
      const isSame = (one: CanaryShare) =>
        one.config_id === configId && one.version === version && one.share === share;
      if (!shares.some(isSame)) this.#canaries.delete(configId);
    }
    for (const share of shares) {
      if (!this.#canaries.has(share.config_id))
        this.#canaries.set(share.config_id, { ...share, requests: 0, given: 0, looksAt: null });
    }
    for (const worker of this.#byId.values()) {
      const canary = this.#canaries.get(worker.session.config_id) ?? null;
      // What the end of a trial held back may go now.
      if (worker.canary !== canary) this.#ready.worker(worker);
      worker.canary = canary;
    }
  }

  /** Notes that a worker lost its connection; unless it was leaving, it may be back. @param until epoch ms */
  expect(worker: Worker, until: number): void {
    this.changes += 1;
    if (!isLeaving(worker)) this.#away.set(worker.session.worker_id, { serving: worker, worker, until });
  }

  /**
   * Notes that a worker whose connection went with an earlier process of the queue may be back.
   * @param until epoch ms
   */
  expectAgain(serving: Serving, until: number): void {
    const { worker_id } = serving.session;
    if (!this.#cordon.has(worker_id)) this.#away.set(worker_id, { serving, worker: null, until });
  }

  /** Gives every worker that may reconnect time until then at least. @param until epoch ms */
  postponeReturns(until: number): void {
    for (const away of this.#away.values()) away.until = Math.max(away.until, until);
  }

  /** Returns the epoch ms until which one of these workers may reconnect; 0 if none may. */
  expectedUntil(now: number, isWanted: (worker: Serving) => boolean): number {
    let latest = 0;
    for (const [id, { serving, until }] of this.#away) {
      if (until <= now) this.#away.delete(id);
      else if (isWanted(serving)) latest = Math.max(latest, until);
    }
    return latest;
  }

  /** Forgets a connection; a newer connection of the same worker stays. @returns the worker; null if unknown */
  remove(connection: Connection): Worker | null {
    const worker = this.#byConnection.get(connection.id);
    if (!worker) return null;
    this.changes += 1;
    this.#byConnection.delete(connection.id);
    if (this.#byId.get(worker.session.worker_id) === worker) this.#byId.delete(worker.session.worker_id);
    this.#takeBackWhatWasLeft();
    return worker;
  }

  /** Clears what base workers declined, which is only what they leave to others (dispatch/base-workers.ts). */
  #takeBackWhatWasLeft(): void {
    for (const worker of this.#byId.values()) {
      if (profileOf(worker).takesAnyJob || worker.declined.size === 0) continue;
      worker.declined.clear();
      this.#ready.worker(worker);
    }
  }

  byConnection(connection: Connection): Worker | null {
    return this.#byConnection.get(connection.id) ?? null;
  }

  byId(workerId: string): Worker | null {
    return this.#byId.get(workerId) ?? null;
  }

  /** Returns the worker that is connected, or was since the queue started and may reconnect. */
  lastOf(workerId: string): Worker | null {
    return this.byId(workerId) ?? this.#away.get(workerId)?.worker ?? null;
  }

  all(): Worker[] {
    return [...this.#byId.values()];
  }

  /** Says whether there is such a worker among those that are connected. */
  has(isWanted: (worker: Worker) => boolean): boolean {
    for (const worker of this.#byId.values()) if (isWanted(worker)) return true;
    return false;
  }

  /** Returns the workers that are connected or may reconnect. @param now epoch ms */
  present(now: number): Serving[] {
    const away = [...this.#away.values()].filter(({ until }) => until > now);
    return [...this.#byId.values(), ...away.map(({ serving }) => serving)];
  }

  /** Returns the models that those workers of a pool serve that take jobs or may be back. @param now epoch ms */
  modelsOf(configId: string, now: number): ReadonlySet<string> {
    const known = this.#models;
    // No change is counted when a worker that is away is given up: time alone does that.
    if (known === null || known.changes !== this.changes || now >= known.until) {
      this.#models = { changes: this.changes, until: now + 1000, byPool: this.#modelsByPool(now) };
    }
    return this.#models!.byPool.get(configId) ?? NO_MODELS;
  }

  #modelsByPool(now: number): Map<string, Set<string>> {
    const byPool = new Map<string, Set<string>>();
    const taking = this.present(now).filter(({ session }) => {
      const worker = this.#byId.get(session.worker_id);
      return worker === undefined || !isLeaving(worker);
    });
    for (const { session, models } of taking) {
      const known = byPool.get(session.config_id) ?? new Set();
      for (const model of models) known.add(model);
      byPool.set(session.config_id, known);
    }
    return byPool;
  }

  /** Frees the slot of one attempt, if the worker still runs that very attempt; dispatch fills it again. */
  freeSlot(workerId: string | null, jobId: string, fenceToken: number): void {
    const worker = workerId === null ? null : this.byId(workerId);
    if (worker?.running.get(jobId) !== fenceToken) return;
    worker.running.delete(jobId);
    worker.batchJobs.delete(jobId);
    worker.adapterJobs.delete(jobId);
    worker.predicted.delete(jobId);
    worker.charges.delete(fenceToken);
    worker.heldSince.delete(fenceToken);
    this.#ready.worker(worker);
  }
}
