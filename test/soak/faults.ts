import { setTimeout as sleep } from 'node:timers/promises';
import type { HalfOpenSide } from '../support/faulty-proxy.ts';
import type { Random } from '../support/random.ts';
import type { FigureRow } from './figures.ts';
import { signal } from './proc.ts';
import { type SoakRoad, type SoakWorker, TIMES } from './road.ts';

/** What the soak does to the road, and how often in proportion. */
const WEIGHTS = {
  cut: 22,
  stall: 14,
  half_open: 14,
  slow: 8,
  lose_answer: 6,
  kill_worker: 9,
  kill_supervisor: 6,
  kill_engine: 8,
  kill_queue: 8,
  drain: 5,
} as const;
export type FaultKind = keyof typeof WEIGHTS;
export const FAULT_KINDS = Object.keys(WEIGHTS) as FaultKind[];

/** How long a network stalls or is slow, ms. Some stalls outlast lease and grace, most do not. */
const STALL_MS = { least: 500, most: 18_000 };
const SLOW_MS = { least: 2000, most: 10_000 };

/** A worker that was cut off is back by then if nothing else happens to it, ms. */
export const REDIAL_MS = 3000;
/** A half-open connection is found by then: a ping period, two pings unanswered, and a redial, ms. */
const FOUND_MS = 3 * TIMES.ping * 1000 + REDIAL_MS;

/** One fault as it happened. */
export interface Fault {
  kind: FaultKind;
  /** The worker it touched; null: the queue or the callers. */
  worker: string | null;
  /** Epoch ms. */
  at: number;
  /** When its cause was over and, for a process, when it was back; null: not yet. */
  until: number | null;
  /** Jobs in flight where it struck. */
  inFlight: number;
}

/** Does the worst to a road, one fault at a time or several at once. */
export class Faults {
  readonly done: Fault[] = [];
  readonly #road: SoakRoad;
  readonly #random: Random;
  readonly #kinds: FaultKind[];
  readonly #lasting = new Set<Promise<void>>();

  /** @param only the kinds there are, in the proportion of their weights */
  constructor(road: SoakRoad, random: Random, only: readonly FaultKind[] = FAULT_KINDS) {
    this.#road = road;
    this.#random = random;
    this.#kinds = only.flatMap((kind) => Array.from({ length: WEIGHTS[kind] }, () => kind));
  }

  /**
   * Strikes once.
   * @param running jobs in flight by worker: those who have some are preferred
   * @returns null when there was nothing to strike at the moment, e.g. no process to kill
   */
  strike(running: ReadonlyMap<string, number>): Fault | null {
    const kind = this.#random.pick(this.#kinds);
    const busy = this.#road.workers.filter(({ id }) => (running.get(id) ?? 0) > 0);
    const worker = this.#random.pick(busy.length > 0 ? busy : this.#road.workers);
    const lasts = this.#do(kind, worker);
    if (lasts === null) return null;
    const isOfWorker = kind !== 'kill_queue' && kind !== 'lose_answer';
    const all = [...running.values()].reduce((sum, count) => sum + count, 0);
    const fault: Fault = {
      kind,
      worker: isOfWorker ? worker.id : null,
      at: Date.now(),
      until: null,
      inFlight: isOfWorker ? (running.get(worker.id) ?? 0) : all,
    };
    this.done.push(fault);
    const over = lasts.then(() => {
      fault.until = Date.now();
    });
    this.#lasting.add(over);
    void over.finally(() => this.#lasting.delete(over));
    return fault;
  }

  figures(): FigureRow[] {
    const kinds = Map.groupBy(this.done, ({ kind }) => kind);
    return [
      ['faults', this.done.length],
      ['… while jobs were in flight there', this.done.filter(({ inFlight }) => inFlight > 0).length],
      ...[...kinds].sort().map(([kind, list]): FigureRow => [`… ${kind}`, list.length]),
    ];
  }

  /** Everything that was started is over: networks good, processes back. */
  async over(): Promise<void> {
    this.#road.heal();
    await Promise.all(this.#lasting);
  }

  /** @returns settles when the fault is over; null when it could not be done */
  #do(kind: FaultKind, worker: SoakWorker): Promise<void> | null {
    const { proxy } = worker;
    switch (kind) {
      case 'cut':
        proxy.cut();
        return sleep(REDIAL_MS);
      case 'half_open':
        proxy.halfOpen(this.#random.pick<HalfOpenSide>(['neither', 'client', 'server']));
        return sleep(FOUND_MS);
      case 'stall':
        return proxy.stall(this.#between(STALL_MS));
      case 'slow':
        return proxy.slow(this.#between(SLOW_MS));
      case 'lose_answer':
        this.#road.callers.loseNextAnswer();
        return Promise.resolve();
      case 'kill_queue':
        return this.#killQueue();
      default:
        return this.#end(kind, worker);
    }
  }

  #end(
    kind: 'kill_worker' | 'kill_supervisor' | 'kill_engine' | 'drain',
    worker: SoakWorker,
  ): Promise<void> | null {
    const processes = this.#road.processesOf(worker);
    if (!processes) return null;
    const victim = {
      kill_worker: processes.worker,
      kill_engine: processes.engine,
      kill_supervisor: processes.supervisor,
      drain: processes.supervisor,
    }[kind];
    if (victim === null) return null;
    const before = Date.now();
    if (!signal(victim, kind === 'drain' ? 'SIGTERM' : 'SIGKILL')) return null;
    return this.#isBack(worker, kind === 'kill_engine' ? 0 : before, victim);
  }

  /** All its processes run, another one in the victim's place, and it takes jobs on a connection made since. */
  async #isBack(worker: SoakWorker, since: number, victim: number): Promise<void> {
    for (;;) {
      await sleep(300);
      const views = await this.#road.views().catch(() => []);
      const view = views.find(({ worker_id }) => worker_id === worker.id);
      const processes = Object.values(this.#road.processesOf(worker) ?? { none: null });
      const areBack = processes.every((pid) => pid !== null && pid !== victim);
      if (areBack && view?.state === 'ready' && Date.parse(view.connected_at ?? '') > since) return;
    }
  }

  #killQueue(): Promise<void> | null {
    const pid = this.#road.queue.current?.pid;
    if (pid === undefined) return null;
    signal(pid, 'SIGKILL');
    return this.#queueIsBack(pid);
  }

  async #queueIsBack(killed: number): Promise<void> {
    for (;;) {
      await sleep(200);
      const pid = this.#road.queue.current?.pid;
      if (pid === undefined || pid === killed) continue;
      const ok = await fetch(`${this.#road.queueUrl}/health`, { signal: AbortSignal.timeout(2000) }).then(
        (response) => response.ok,
        () => false,
      );
      if (ok) return;
    }
  }

  #between({ least, most }: { least: number; most: number }): number {
    return least + this.#random.next() * (most - least);
  }
}
