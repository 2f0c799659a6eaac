import type { AliasTable } from '../../aliases/alias.ts';
import type { ObjectHost } from '../../durable/host.ts';
import type { DisplacedJobs, FleetEvent, PoolStart, QueueShare, RecordAnswer } from '../../fleet/rpc.ts';
import type { RequestRecord } from '../../protocol/index.ts';
import type { Asks } from './env.ts';

/** The first event after a quiet second waits this many ms for others to share its call; viewers notice no delay. */
const SEND_AFTER_MS = 100;
/** The pause between two calls, ms. */
const PAUSE_MS = 1000;
/** The most events in one call, which carries 32 MiB. */
const EVENTS_A_CALL = 200;
/** The most events kept while the fleet object cannot be reached; beyond this number the oldest are dropped. */
const MOST_EVENTS = 2000;
/** The most ended requests kept while the fleet object cannot be reached; beyond it the oldest are dropped. */
const MOST_ENDED = 20_000;

interface FleetReportPorts {
  send(
    events: FleetEvent[],
    share: QueueShare | undefined,
    ended: RequestRecord[],
    failed: Record<string, number>,
    displaced: Record<string, DisplacedJobs>,
  ): Promise<RecordAnswer>;
  /** Returns all of the queue's numbers as they are now. */
  share(): QueueShare;
  /** Takes the requests that have ended since the last call. */
  takeEnded(): RequestRecord[];
  /** Takes the numbers of attempts that failed through a worker's fault since the last call, by worker. */
  takeFailed(): Record<string, number>;
  /** Takes what became of the jobs that workers could not finish since the last call, by worker. */
  takeDisplaced(): Record<string, DisplacedJobs>;
  /** Whether callers wait for a worker's start, or starts have stopped: the answer is worth a call without news. */
  awaitsStart(): boolean;
  /** Takes the starts that the fleet object answers with. */
  takeStarts(starts: PoolStart[]): void;
  /** Takes the aliases that the fleet object answers with; resolves when they hold. */
  takeAliases(aliases: AliasTable): Promise<void>;
  /** Runs something after `ms`. */
  after(ms: number, run: () => void): void;
  /** Is called with the first call that fails, and not again before one works. */
  failed(error: unknown): void;
}

/**
 * Reports to the queue's fleet object: events in order, with what has changed of the queue's numbers and the requests
 * that have ended. It makes at most one call a second, and reports again when a call fails. Only readers of the fleet
 * wait for it.
 */
export class FleetReport {
  readonly #ports: FleetReportPorts;
  readonly #changes = new ShareChanges();
  #events: FleetEvent[] = [];
  #ended: RequestRecord[] = [];
  /** Whether a call is planned, or the pause after one is not over. */
  #isPlanned = false;
  /** Whether something came since the last planned call. */
  #isDue = false;
  #isFailing = false;
  #sending: Promise<void> = Promise.resolve();

  constructor(ports: FleetReportPorts) {
    this.#ports = ports;
  }

  tell(event: FleetEvent): void {
    this.#events.push(event);
    this.#plan();
  }

  /** Plans a call, since numbers may have changed. */
  changed(): void {
    this.#plan();
  }

  /** Makes the next call report all numbers, since the fleet object has lost those reported before. */
  forget(): void {
    this.#changes.forget();
  }

  /** Sends what is waiting at once; resolves when the fleet object has all reported so far, or did not answer. */
  flush(): Promise<void> {
    this.#sending = this.#sending.then(() => this.#send());
    return this.#sending;
  }

  /** Plans a call: soon after a quiet second, else when the second since the last call is over. */
  #plan(): void {
    this.#isDue = true;
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    this.#ports.after(SEND_AFTER_MS, () => this.#sendPlanned());
  }

  #sendPlanned(): void {
    this.#isDue = false;
    void this.flush();
    this.#ports.after(PAUSE_MS, () => {
      if (this.#isDue) return this.#sendPlanned();
      this.#isPlanned = false;
    });
  }

  async #send(): Promise<void> {
    while (true) {
      const events = this.#events.splice(0, EVENTS_A_CALL);
      const change = this.#events.length > 0 ? undefined : this.#changes.of(this.#ports.share());
      const ended = [...this.#ended, ...this.#ports.takeEnded()];
      this.#ended = [];
      // They are not reported again after a call that fails: the fleet object may have counted them.
      const failed = this.#ports.takeFailed();
      const displaced = this.#ports.takeDisplaced();
      const byWorker = [...Object.keys(failed), ...Object.keys(displaced)];
      const isNews = change !== undefined || events.length + ended.length + byWorker.length > 0;
      if (!isNews && !this.#ports.awaitsStart()) return;
      try {
        const { wants, starts, aliases } = await this.#ports.send(events, change, ended, failed, displaced);
        await this.#ports.takeAliases(aliases);
        this.#ports.takeStarts(starts);
        if (wants === 'full') this.#changes.forget();
        this.#isFailing = false;
        if (this.#events.length > 0) continue;
        if (wants === 'full') this.#plan();
        return;
      } catch (error) {
        if (!this.#isFailing) this.#ports.failed(error);
        this.#isFailing = true;
        this.#changes.forget();
        this.#events = [...events, ...this.#events].slice(-MOST_EVENTS);
        this.#ended = [...ended, ...this.#ended].slice(-MOST_ENDED);
        this.#plan();
        return;
      }
    }
  }
}

/** Makes the report to the fleet object of this queue id. */
export function reportToFleet(
  host: Pick<ObjectHost, 'queueId' | 'after' | 'log'>,
  objects: Pick<Asks, 'fleet'>,
  queue: Pick<
    FleetReportPorts,
    'share' | 'takeEnded' | 'takeFailed' | 'takeDisplaced' | 'awaitsStart' | 'takeStarts' | 'takeAliases'
  >,
): FleetReport {
  return new FleetReport({
    send: (...told) => objects.fleet(host.queueId).record(...told),
    ...queue,
    after: (ms, run) => void host.after(ms, run),
    failed: (error) =>
      host.log('warn', 'the fleet object cannot be told of workers; jobs are not affected', {
        error: String(error),
      }),
  });
}

/** The queue's numbers as reported to the fleet object, so that only changes are reported. */
class ShareChanges {
  /** The reported numbers, as JSON by id; null if they are not known, so that the next share is whole. */
  #told: { sessions: Map<string, string>; pools: Map<string, string> } | null = null;

  /**
   * Returns what of the share is new, which counts as reported from now on: after a call that fails `forget` is due,
   * since the fleet object may or may not have taken it.
   * @param share a whole one
   * @returns undefined if nothing is new
   */
  of(share: QueueShare): QueueShare | undefined {
    const before = this.#told;
    const now = {
      sessions: new Map(share.sessions.map((one) => [one.worker_id, JSON.stringify(one)])),
      pools: new Map(share.pools.map((one) => [one.config_id, JSON.stringify(one)])),
    };
    this.#told = now;
    if (before === null) return share;
    const sessions = share.sessions.filter(
      ({ worker_id: id }) => before.sessions.get(id) !== now.sessions.get(id),
    );
    const pools = share.pools.filter(({ config_id: id }) => before.pools.get(id) !== now.pools.get(id));
    const gone = [...before.sessions.keys()].filter((id) => !now.sessions.has(id));
    if (sessions.length + pools.length + gone.length === 0) return undefined;
    return { at: share.at, full: false, sessions, gone, pools };
  }

  /** Forgets what was reported, since the fleet object has lost it or may not have got it. */
  forget(): void {
    this.#told = null;
  }
}
