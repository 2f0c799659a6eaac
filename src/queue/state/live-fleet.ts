import type { Load } from '../../protocol/index.ts';
import type { Connection, Session } from '../store/ports.ts';
import type { Openings } from './openings.ts';

/** A registered worker and the jobs it holds. One live connection per worker id: the newest. */
export interface Worker {
  connection: Connection;
  session: Session;
  models: string[];
  /** Job id → fence token of what it runs, transient and persisted. */
  running: Map<string, number>;
  load: Load | null;
  /**
   * The most jobs it takes by its own word: those it ran when its last `load` frame came, and `slots_free`.
   * Each dispatch uses one of these up and each end gives one back; null before the first frame.
   */
  ceiling: number | null;
  /** Jobs it released because it cannot meet their deadline at its present load. */
  declined: Set<string>;
  /** One of ours that let a lease run out and has said nothing since: it gets nothing until it does. */
  silent: boolean;
}

/** The workers whose sockets are open, by connection and by id, and those that may be back any moment. */
export class Fleet {
  readonly #openings: Openings;
  readonly #byConnection = new Map<string, Worker>();
  readonly #byId = new Map<string, Worker>();
  /** By id; `until` in epoch ms. */
  readonly #away = new Map<string, { worker: Worker; until: number }>();

  /** Grows whenever a worker comes, goes or begins to drain: what was found out about all of them is old then. */
  changes = 0;

  constructor(openings: Openings) {
    this.#openings = openings;
  }

  add(worker: Worker): void {
    this.changes += 1;
    this.#byConnection.set(worker.connection.id, worker);
    this.#byId.set(worker.session.worker_id, worker);
    this.#away.delete(worker.session.worker_id);
  }

  /** It lost its connection without having said that it leaves. @param until epoch ms */
  expect(worker: Worker, until: number): void {
    this.changes += 1;
    if (!worker.session.draining) this.#away.set(worker.session.worker_id, { worker, until });
  }

  /** Whoever is expected back has at least until then. @param until epoch ms */
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
    return worker;
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
    this.#openings.worker(worker);
  }
}

/** Slots that may be filled now. */
export function freeSlots(worker: Worker): number {
  const { session, running, silent, ceiling } = worker;
  if (session.paused || session.draining || silent) return 0;
  return Math.max(0, Math.min(session.capacity, ceiling ?? session.capacity) - running.size);
}

/**
 * The worker's gauges. A frame that crossed a dispatch says too much, and the worker releases what it
 * cannot take; one that crossed a revocation says too little, until the next frame a second later.
 */
export function setLoad(worker: Worker, load: Load): void {
  const eased =
    worker.load && (load.slots_free > worker.load.slots_free || load.waiting < worker.load.waiting);
  if (eased) worker.declined.clear();
  worker.load = load;
  worker.ceiling = worker.running.size + load.slots_free;
}

/** Whether both sides use this extension. */
export function hasFeature(worker: Worker, feature: string): boolean {
  return worker.session.features.includes(feature);
}

/** Whether a worker answers to a model name: one its engine serves, or its config's own name. */
export function servesModel(worker: Worker, model: string): boolean {
  return worker.session.config_id === model || worker.models.includes(model);
}

/** Whether it may run what asks for this model, now or when a slot frees. @param model null: any */
export function mayRun(worker: Worker, model: string | null): boolean {
  return model === null || servesModel(worker, model);
}
