import type { Backlog } from '../batches/batch.ts';
import type { Alarm } from '../durable/ports.ts';
import type { LaunchedWorker, LauncherAnswer, LauncherReport } from '../scheduler/rpc.ts';
import type { BacklogFacts } from '../scheduler/rule-types.ts';
import type { Scheduler } from '../scheduler/scheduler.ts';
import { isGenuine, readToken, tokenOf } from '../scheduler/token.ts';
import type { Fleet } from './fleet.ts';
import type { CanaryShare, QueueShare } from './rpc.ts';

/** While callers wait for a worker to start, the scheduler reconciles this often, ms. */
const SOON_MS = 1000;
/** Another object has to answer within this many ms. */
const ANSWER_WITHIN_MS = 5000;
/** One reconciliation asks the batches object at most this many times if the queue reports in between. */
const MOST_ASKED = 3;
/** The next reconciliation comes within this time even if the current one fails, ms. */
const AGAIN_MS = 10_000;

export interface SchedulingPorts {
  /** The fleet's parts, and its scheduler. */
  fleet: Pick<Fleet, 'scheduler' | 'machines' | 'choosePools'>;
  queueId: string;
  alarm: Alarm;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Runs one transaction; a failure rolls back memory too. */
  commit<T>(work: () => T): T;
  /** Replaces the queue's cordon, and the versions that are tried on a part of their pools' requests. @returns for each of these workers the number of jobs it still runs */
  cordon(workerIds: string[], shares: CanaryShare[]): Promise<Record<string, number>>;
  backlog(): Promise<Backlog[]>;
  /** Runs something after a time, ms. @returns calls it off */
  after(ms: number, run: () => void): () => void;
  log(level: 'warn' | 'error', message: string, error: unknown): void;
}

/**
 * Runs the scheduler in the fleet's object: asks the other objects, reconciles when due, and signs the tokens in
 * orders.
 */
export class Scheduling {
  readonly #ports: SchedulingPorts;
  #reconciling: Promise<void> | null = null;
  readonly #inQueue = new LinesInQueue();
  /** The number of the queue's reports so far. */
  #reports = 0;
  #isFailing = false;

  constructor(ports: SchedulingPorts) {
    this.#ports = ports;
    this.arm();
  }

  /** Sets the alarm for the next reconciliation. */
  arm(): void {
    const { alarm } = this.#ports;
    const scheduler = this.#scheduler;
    const next = scheduler.nextReconcile();
    if (next === null) alarm.clear();
    else if (alarm.get() !== next) alarm.set(next);
  }

  /** Reconciles at once; called when something has changed. */
  wake(): void {
    const { alarm, now } = this.#ports;
    const scheduler = this.#scheduler;
    if (scheduler.nextReconcile() !== null) alarm.set(now());
  }

  /**
   * Notes that the queue has reported its numbers. Where callers wait for a pool without a worker, reconciles within a
   * second.
   */
  heard({ pools }: QueueShare): void {
    this.#reports += 1;
    const { alarm, now } = this.#ports;
    const scheduler = this.#scheduler;
    const next = scheduler.nextReconcile();
    if (next === null || next - now() <= SOON_MS) return;
    const waiting = pools.filter(({ pending }) => pending.waiting + pending.stored > 0);
    const sessions = this.#ports.fleet.machines.sessions();
    const isUnserved = ({ config_id }: { config_id: string }) =>
      !sessions.some((session) => session.config_id === config_id && session.state !== 'draining');
    if (waiting.some(isUnserved)) alarm.set(Math.max(now(), scheduler.reconciledAt + SOON_MS));
  }

  /**
   * Compares what is needed with what runs, and writes what has to change. One reconciliation runs at a time. Never
   * rejects.
   */
  reconcile(): Promise<void> {
    this.#reconciling ??= this.#reconcile().finally(() => {
      this.#reconciling = null;
    });
    return this.#reconciling;
  }

  async sync(launcherId: string, report: LauncherReport): Promise<LauncherAnswer> {
    const { commit, queueId } = this.#ports;
    const scheduler = this.#scheduler;
    const answer = commit(() => scheduler.sync(launcherId, report));
    if (report.results.length > 0 || report.lists.length > 0) this.arm();
    const orders = answer.orders.map(async (order) =>
      order.kind === 'terminate'
        ? order
        : {
            ...order,
            token: await tokenOf(scheduler.tokenSecret, { queue_id: queueId, launch_id: order.launch_id }),
          },
    );
    return { ...answer, orders: await Promise.all(orders) };
  }

  /** Returns the worker that this token belongs to, or null once its launch has ended. */
  async workerOfToken(token: string): Promise<LaunchedWorker | null> {
    const { queueId } = this.#ports;
    const scheduler = this.#scheduler;
    const claimed = readToken(token);
    if (claimed?.queue_id !== queueId) return null;
    const worker = scheduler.workerOf(claimed.launch_id);
    return worker && (await isGenuine(scheduler.tokenSecret, token, claimed)) ? worker : null;
  }

  get #scheduler(): Scheduler {
    return this.#ports.fleet.scheduler;
  }

  async #reconcile(): Promise<void> {
    const { alarm, now, commit, cordon, log } = this.#ports;
    const scheduler = this.#scheduler;
    // The alarm is set first, so that neither a failure below nor the end of this process ends the loop.
    alarm.set(now() + AGAIN_MS);
    try {
      const cordoned = await this.#answered('queue', () => cordon(scheduler.cordon(), scheduler.shares()));
      const backlog = await this.#answered('batches', () => this.#askBacklog());
      commit(() => scheduler.reconcile({ cordoned, backlog }));
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) log('error', 'the scheduler failed', error);
      this.#isFailing = true;
      return;
    }
    this.arm();
  }

  /** Asks another object. @returns null when the object did not answer in time */
  async #answered<T>(whose: string, ask: () => Promise<T>): Promise<T | null> {
    const { after, log } = this.#ports;
    let callOff!: () => void;
    const late = new Promise<never>((_, reject) => {
      callOff = after(ANSWER_WITHIN_MS, () => reject(new Error('no answer in time')));
    });
    try {
      return await Promise.race([ask(), late]);
    } catch (error) {
      log('warn', `the scheduler holds everything: the object of the ${whose} did not answer`, error);
      return null;
    } finally {
      callOff();
    }
  }

  /**
   * Asks the batches object how many lines each pool has left. Lines in the queue's report that are not known to be
   * lines of batches count as jobs for which a machine is launched at once. So no answer is reused in a later
   * reconciliation, and if the queue reports before the answer arrives, the batches object is asked again.
   */
  async #askBacklog(): Promise<ReadonlyMap<string, BacklogFacts>> {
    const { now, backlog, fleet } = this.#ports;
    let left: Backlog[] = [];
    for (let asked = 0, reports = -1; reports !== this.#reports && asked < MOST_ASKED; asked++) {
      reports = this.#reports;
      left = await backlog();
    }
    const found = new Map<string, BacklogFacts>();
    const choices = fleet.choosePools(left.map(({ model }) => model ?? null));
    for (const [index, { lines, in_queue, window_ends_at }] of left.entries()) {
      const choice = choices[index];
      if (choice?.kind !== 'pool') continue;
      const known = found.get(choice.config_id) ?? { batches: [], in_queue: 0 };
      found.set(choice.config_id, {
        batches: [...known.batches, { lines, ends_at: window_ends_at }],
        in_queue: known.in_queue + in_queue,
      });
    }
    return this.#inQueue.most(found, now());
  }
}

/** The queue's newest report is never older than this, ms. */
const REPORTED_WITHIN_MS = 15_000;

/**
 * Remembers how many lines of batches the queue had in recent reports, by pool. The batches object learns that a line
 * has ended before the fleet object learns how much still waits: by the newest count alone, lines that have ended since
 * the queue's report would count as jobs that wait for a worker.
 */
class LinesInQueue {
  #told: { at: number; lines: ReadonlyMap<string, number> }[] = [];

  /**
   * Notes the newest counts. @param now epoch ms @returns `told` with the highest recent count of lines in the queue,
   * for each pool
   */
  most(told: ReadonlyMap<string, BacklogFacts>, now: number): ReadonlyMap<string, BacklogFacts> {
    const lines = new Map([...told].map(([id, { in_queue }]) => [id, in_queue]));
    // After the clock was set back, no older count is known to be recent.
    const recent = this.#told.filter(({ at }) => at > now - REPORTED_WITHIN_MS && at <= now);
    this.#told = [...recent, { at: now, lines }];
    const pools = new Set(this.#told.flatMap(({ lines }) => [...lines.keys()]));
    const most = (id: string) => Math.max(...this.#told.map(({ lines }) => lines.get(id) ?? 0));
    return new Map(
      [...pools].map((id) => [id, { batches: told.get(id)?.batches ?? [], in_queue: most(id) }]),
    );
  }
}
