import type { Backlog } from '../batches/rpc.ts';
import type { Alarm } from '../durable/ports.ts';
import type { BacklogFacts, FleetFacts } from '../scheduler/facts.ts';
import type { LaunchedWorker, LauncherAnswer, LauncherReport } from '../scheduler/rpc.ts';
import type { Scheduler } from '../scheduler/scheduler.ts';
import { isGenuine, readToken, tokenOf } from '../scheduler/token.ts';
import type { QueueShare } from './rpc.ts';

/** While callers wait for a worker to be started it looks this often, ms. */
const SOON_MS = 1000;
/** Another object gets so long to answer, ms. */
const ANSWER_WITHIN_MS = 5000;
/** What batches have still to run hardly changes from one second to the next, ms. */
const BACKLOG_EVERY_MS = 5000;
/** The next look comes at the latest after so long, ms, whatever becomes of this one. */
const AGAIN_MS = 10_000;

export interface SchedulingPorts {
  scheduler: Scheduler;
  queueId: string;
  alarm: Alarm;
  /** Epoch ms */
  now(): number;
  /** One transaction; what was in memory of it is put back when it fails. */
  commit<T>(work: () => T): T;
  /** The whole cordon; answers what each of these workers holds. */
  cordon(workerIds: string[]): Promise<Record<string, number>>;
  backlog(): Promise<Backlog[]>;
  facts(): FleetFacts;
  /** Which config each model is for, in order; null: it is not known. */
  configsOf(models: (string | null)[]): (string | null)[];
}

/** The scheduler in its object: asks the other objects, looks at the right times, and makes the tokens of its orders. */
export class Scheduling {
  readonly #ports: SchedulingPorts;
  #looking: Promise<void> | null = null;
  #backlog: { at: number; lines: ReadonlyMap<string, BacklogFacts> } | null = null;
  #isFailing = false;

  constructor(ports: SchedulingPorts) {
    this.#ports = ports;
    this.arm();
  }

  /** Sets the alarm for the next look. */
  arm(): void {
    const { scheduler, alarm } = this.#ports;
    const next = scheduler.nextTick();
    if (next === null) alarm.clear();
    else if (alarm.get() !== next) alarm.set(next);
  }

  /** Something has come that is worth a look at once. */
  wake(): void {
    const { scheduler, alarm, now } = this.#ports;
    if (scheduler.nextTick() !== null) alarm.set(now());
  }

  /** The queue has told its numbers. Where callers wait for a worker to be started, that is not put off. */
  heard({ configs }: QueueShare): void {
    const { scheduler, alarm, now } = this.#ports;
    const next = scheduler.nextTick();
    if (next === null || next - now() <= SOON_MS) return;
    const waiting = configs.filter(({ callers, stored }) => callers + stored > 0);
    const { sessions } = this.#ports.facts();
    const isUnserved = ({ config_id }: { config_id: string }) =>
      !sessions.some((session) => session.config_id === config_id && session.state !== 'draining');
    if (waiting.some(isUnserved)) alarm.set(Math.max(now(), scheduler.tickedAt + SOON_MS));
  }

  /** One look at everything, and what is decided then. Looks do not overlap. Never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async sync(launcherId: string, report: LauncherReport): Promise<LauncherAnswer> {
    const { scheduler, commit, queueId } = this.#ports;
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

  /** The worker whose token it is, as long as its launch has not ended. */
  async workerOfToken(token: string): Promise<LaunchedWorker | null> {
    const { scheduler, queueId } = this.#ports;
    const claimed = readToken(token);
    if (claimed?.queue_id !== queueId) return null;
    const worker = scheduler.workerOf(claimed.launch_id);
    return worker && (await isGenuine(scheduler.tokenSecret, token, claimed)) ? worker : null;
  }

  async #look(): Promise<void> {
    const { scheduler, alarm, now, commit, cordon } = this.#ports;
    // Whatever happens to this look or this process, there will be another.
    alarm.set(now() + AGAIN_MS);
    try {
      const [cordoned, backlog] = await Promise.all([
        this.#answered('queue', () => cordon(scheduler.cordon())),
        this.#answered('batches', () => this.#askBacklog()),
      ]);
      commit(() => scheduler.tick({ cordoned, backlog }));
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#log('error', 'the scheduler failed', error);
      this.#isFailing = true;
      return;
    }
    this.arm();
  }

  /** Null: it did not answer in time. */
  async #answered<T>(whose: string, ask: () => Promise<T>): Promise<T | null> {
    let timer!: ReturnType<typeof setTimeout>;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer in time')), ANSWER_WITHIN_MS);
    });
    try {
      return await Promise.race([ask(), late]);
    } catch (error) {
      this.#log('warn', `the scheduler holds everything: the object of the ${whose} did not answer`, error);
      return null;
    } finally {
      clearTimeout(timer);
    }
  }

  async #askBacklog(): Promise<ReadonlyMap<string, BacklogFacts>> {
    const { now, backlog, configsOf } = this.#ports;
    if (this.#backlog && now() - this.#backlog.at < BACKLOG_EVERY_MS) return this.#backlog.lines;
    const found = new Map<string, BacklogFacts>();
    const left = await backlog();
    const configs = configsOf(left.map(({ model }) => model ?? null));
    for (const [index, { lines, in_queue, window_ends_at }] of left.entries()) {
      const config = configs[index] ?? null;
      if (config === null) continue;
      const known = found.get(config) ?? { batches: [], in_queue: 0 };
      found.set(config, {
        batches: [...known.batches, { lines, ends_at: window_ends_at }],
        in_queue: known.in_queue + in_queue,
      });
    }
    this.#backlog = { at: now(), lines: found };
    return found;
  }

  #log(level: 'warn' | 'error', msg: string, error: unknown): void {
    const { queueId: queue_id } = this.#ports;
    console.log(JSON.stringify({ level, msg, queue_id, error: String(error) }));
  }
}
