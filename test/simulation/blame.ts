import type { AttemptError } from '../../src/protocol/index.ts';
import type { Exchange } from './engine.ts';
import type { Link } from './network.ts';
import type { Plan } from './plan.ts';
import type { Timeline } from './timeline.ts';

interface Dispatch {
  jobId: string;
  at: number;
  link: Link;
  /** When the queue last heard from its holder that it still has it. */
  heardAt: number;
}

/** Whether a charged attempt had a reason to be: what went wrong, where and when, is known here. */
export class Blame {
  readonly #plan: Plan;
  readonly #timeline: Timeline;
  readonly #violated: (promise: string, message: string) => void;
  readonly #dispatches = new Map<number, Dispatch>();
  readonly #deadBoots = new Set<string>();
  /** Boot → since when it drains. */
  readonly #drainsSince = new Map<string, number>();
  /** Boot → the connection over which the queue heard that its machine is taken away. */
  readonly #noticed = new Map<string, Link>();
  readonly #deadEngines = new Set<string>();
  /** Worker → until when it was last in trouble. */
  readonly #troubledUntil = new Map<string, number>();
  readonly #failedFences = new Set<number>();
  /** Job and worker of every request that an engine failed. */
  readonly #failedAt = new Set<string>();

  constructor(plan: Plan, timeline: Timeline, violated: (promise: string, message: string) => void) {
    this.#plan = plan;
    this.#timeline = timeline;
    this.#violated = violated;
  }

  dispatched(jobId: string, fence: number, link: Link): void {
    const now = this.#timeline.now;
    this.#dispatches.set(fence, { jobId, at: now, link, heardAt: now });
  }

  heard(fence: number, at: number): void {
    const dispatch = this.#dispatches.get(fence);
    if (dispatch) dispatch.heardAt = at;
  }

  /** The queue hears that the machine at the other end is taken away. */
  noticed(link: Link): void {
    this.#noticed.set(link.process.boot, link);
  }

  /** A worker that dials anew has to tell it anew. */
  dialled({ process }: Link): void {
    this.#noticed.delete(process.boot);
  }

  /** The process of the queue ends, and with it what workers had told it of their machines. */
  queueEnded(): void {
    this.#noticed.clear();
  }

  bootDied(boot: string): void {
    this.#deadBoots.add(boot);
  }

  bootDrains(boot: string): void {
    if (!this.#drainsSince.has(boot)) this.#drainsSince.set(boot, this.#timeline.now);
  }

  engineDied(boot: string): void {
    this.#deadEngines.add(boot);
  }

  trouble(worker: string, until: number): void {
    this.#troubledUntil.set(worker, Math.max(until, this.#troubledUntil.get(worker) ?? 0));
  }

  exchangeEnded({ jobId, worker, fence, state, ending, status }: Exchange): void {
    if (state !== 'failed' && ending === 'whole' && status < 400) return;
    this.#failedFences.add(fence);
    this.#failedAt.add(`${jobId} ${worker}`);
  }

  /** Nothing has come between the queue and the holder of an attempt since then. */
  isSteadySince(fence: number, since: number): boolean {
    const dispatch = this.#dispatches.get(fence);
    if (!dispatch?.link.isOpen) return false;
    return (this.#troubledUntil.get(dispatch.link.process.name) ?? 0) < since;
  }

  #isBase(worker: string): boolean {
    return this.#plan.workers.some(({ name, isBase }) => isBase && name === worker);
  }

  charged(jobId: string, error: AttemptError, isDeadlineOver: boolean, at: number): void {
    const dispatch = this.#dispatches.get(error.fence_token);
    const why = dispatch
      ? this.#unjust(dispatch, error, isDeadlineOver, at)
      : 'nobody was ever sent that attempt';
    if (why === null) return;
    this.#violated(
      'only what a job can be blamed for is charged',
      `${jobId}#${error.fence_token} was charged ${error.code}, but ${why}`,
    );
  }

  /** Null when it was right to charge it. */
  #unjust(dispatch: Dispatch, error: AttemptError, isDeadlineOver: boolean, now: number): string | null {
    const { boot, name } = dispatch.link.process;
    const isGone = error.code === 'worker_died' || error.code === 'lease_expired';
    if (isGone && this.#noticed.get(boot) === dispatch.link)
      return `the queue knew that the machine of ${boot} is taken away`;
    switch (error.code) {
      case 'worker_died':
        return this.#deadBoots.has(boot) ? null : `${boot} lives`;
      case 'lease_expired': {
        const silentMs = now - dispatch.heardAt;
        const leastMs = Math.min(this.#plan.leaseSeconds, this.#plan.graceSeconds) * 1000;
        if (silentMs < leastMs) return `${boot} said ${silentMs} ms ago that it runs`;
        if (this.#deadBoots.has(boot)) return null;
        const wasTroubled = (this.#troubledUntil.get(name) ?? 0) >= dispatch.at || dispatch.link.isBroken;
        // A base worker drops what it cannot send, whoever closed the connection.
        const wasClosed = this.#isBase(name) && !dispatch.link.isOpen;
        // It drops what comes while it drains, and cannot tell a queue that started again that it does.
        const wasDrained =
          this.#isBase(name) && (this.#drainsSince.get(boot) ?? Number.POSITIVE_INFINITY) <= dispatch.at;
        return wasTroubled || wasClosed || wasDrained ? null : `nothing had happened to ${boot}`;
      }
      case 'engine_refused':
      case 'engine_error':
      case 'engine_overloaded':
      case 'engine_died':
      case 'engine_unreachable':
        if (this.#failedFences.has(error.fence_token) || this.#deadEngines.has(boot)) return null;
        return 'its engine had not failed it';
      // A base worker's only code; given the same job twice it may tell of the earlier time.
      case 'worker_error':
        if (this.#isBase(name) && this.#failedAt.has(`${dispatch.jobId} ${name}`)) return null;
        return 'its engine had not failed it';
      case 'deadline':
        return isDeadlineOver ? null : 'it had time left';
      default:
        return 'that is no failure of this run';
    }
  }
}
