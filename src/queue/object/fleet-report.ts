import type { FleetEvent, PoolStart, QueueShare, RecordAnswer } from '../../fleet/rpc.ts';
import type { RequestRecord } from '../../protocol/index.ts';
import { ShareChanges } from './share-changes.ts';

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

export interface FleetReportPorts {
  send(events: FleetEvent[], share: QueueShare | undefined, ended: RequestRecord[]): Promise<RecordAnswer>;
  /** Returns all of the queue's numbers as they are now. */
  share(): QueueShare;
  /** Takes the requests that have ended since the last call. */
  takeEnded(): RequestRecord[];
  /** Whether callers wait for a worker's start, or starts have stopped: the answer is worth a call without news. */
  awaitsStart(): boolean;
  /** Takes the starts that the fleet object answers with. */
  hearStarts(starts: PoolStart[]): void;
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
      const isNews = events.length > 0 || change !== undefined || ended.length > 0;
      if (!isNews && !this.#ports.awaitsStart()) return;
      try {
        const { wants, starts } = await this.#ports.send(events, change, ended);
        this.#ports.hearStarts(starts);
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
