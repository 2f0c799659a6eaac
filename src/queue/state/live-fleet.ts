import type { Connection } from '../store/ports.ts';
import type { Openings } from './openings.ts';
import { isLeaving, profileOf, type Worker } from './worker.ts';

/** The workers whose sockets are open, by connection and by id, and those that may be back any moment. */
export class Fleet {
  readonly #openings: Openings;
  readonly #byConnection = new Map<string, Worker>();
  readonly #byId = new Map<string, Worker>();
  /** By id; `until` in epoch ms. */
  readonly #away = new Map<string, { worker: Worker; until: number }>();
  /** Ids of workers that get no more jobs, connected or not. */
  #cordon: ReadonlySet<string> = new Set();

  /** Grows whenever a worker comes, goes, begins to drain or is cordoned: what was found out about all of them is old then. */
  changes = 0;

  constructor(openings: Openings) {
    this.#openings = openings;
  }

  add(worker: Worker): void {
    this.changes += 1;
    worker.cordoned = this.#cordon.has(worker.session.worker_id);
    this.#byConnection.set(worker.connection.id, worker);
    this.#byId.set(worker.session.worker_id, worker);
    this.#away.delete(worker.session.worker_id);
  }

  /** These and no others get no more jobs. @returns whether that changes anything */
  cordon(workerIds: readonly string[]): boolean {
    const ids = new Set(workerIds);
    if (ids.size === this.#cordon.size && workerIds.every((id) => this.#cordon.has(id))) return false;
    this.changes += 1;
    this.#cordon = ids;
    for (const worker of this.#byId.values()) {
      worker.cordoned = ids.has(worker.session.worker_id);
      if (!worker.cordoned) this.#openings.worker(worker);
    }
    return true;
  }

  /** It lost its connection without having said that it leaves. @param until epoch ms */
  expect(worker: Worker, until: number): void {
    this.changes += 1;
    if (!isLeaving(worker)) this.#away.set(worker.session.worker_id, { worker, until });
  }

  /** A worker that is expected back has at least until then. @param until epoch ms */
  postponeReturns(until: number): void {
    for (const away of this.#away.values()) away.until = Math.max(away.until, until);
  }

  /** Epoch ms until which a worker of this kind is expected back; 0: none is. */
  expectedUntil(now: number, isWanted: (worker: Worker) => boolean): number {
    let latest = 0;
    for (const [id, { worker, until }] of this.#away) {
      if (until <= now) this.#away.delete(id);
      else if (isWanted(worker)) latest = Math.max(latest, until);
    }
    return latest;
  }

  /** Forgets a connection; a newer one of the same worker stays. */
  remove(connection: Connection): Worker | null {
    const worker = this.#byConnection.get(connection.id);
    if (!worker) return null;
    this.changes += 1;
    this.#byConnection.delete(connection.id);
    if (this.#byId.get(worker.session.worker_id) === worker) this.#byId.delete(worker.session.worker_id);
    this.#takeBackWhatWasLeft();
    return worker;
  }

  /** Workers of the base protocol decline only what they leave to others (dispatch/suitability.ts). */
  #takeBackWhatWasLeft(): void {
    for (const worker of this.#byId.values()) {
      if (profileOf(worker).takesAnyJob || worker.declined.size === 0) continue;
      worker.declined.clear();
      this.#openings.worker(worker);
    }
  }

  byConnection(connection: Connection): Worker | null {
    return this.#byConnection.get(connection.id) ?? null;
  }

  byId(workerId: string): Worker | null {
    return this.#byId.get(workerId) ?? null;
  }

  all(): Worker[] {
    return [...this.#byId.values()];
  }

  /** Connected, or expected back. @param now epoch ms */
  present(now: number): Worker[] {
    const away = [...this.#away.values()].filter(({ until }) => until > now);
    return [...this.#byId.values(), ...away.map(({ worker }) => worker)];
  }

  /** Ends one attempt's hold on its slot, if the worker still runs that very attempt; the slot is filled again. */
  freeSlot(workerId: string | null, jobId: string, fenceToken: number): void {
    const worker = workerId === null ? null : this.byId(workerId);
    if (worker?.running.get(jobId) !== fenceToken) return;
    worker.running.delete(jobId);
    worker.batchJobs.delete(jobId);
    this.#openings.worker(worker);
  }
}
