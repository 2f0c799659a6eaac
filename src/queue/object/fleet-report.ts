import type { FleetEvent, PoolStart, QueueShare, RecordAnswer } from '../../fleet/rpc.ts';
import type { RequestRecord } from '../../protocol/index.ts';
import { ShareChanges } from './share-changes.ts';

/** The first event after a quiet second waits this long for others to share its call, ms; viewers notice no delay. */
const SEND_AFTER_MS = 100;
/** Between two calls, ms. */
const PAUSE_MS = 1000;
/** In one call, which carries 32 MiB. */
const EVENTS_A_CALL = 200;
/** Kept while the fleet object cannot be reached; beyond it the oldest go. */
const MOST_EVENTS = 2000;
/** The same of requests that have ended. */
const MOST_ENDED = 20_000;

export interface FleetReportPorts {
  send(events: FleetEvent[], share: QueueShare | undefined, ended: RequestRecord[]): Promise<RecordAnswer>;
  /** All of the queue's numbers as they are now. */
  share(): QueueShare;
  /** Requests that have ended since it was last asked. */
  takeEnded(): RequestRecord[];
  /** Callers wait for a worker to be started, or none is started: the answer is worth a call that tells nothing. */
  awaitsStart(): boolean;
  /** What is answered of starts. */
  hearStarts(starts: PoolStart[]): void;
  /** Runs something later, ms. */
  after(ms: number, run: () => void): void;
  /** Called at the first call that fails, not again before one works. */
  failed(error: unknown): void;
}

/**
 * What the queue tells its fleet object: events in order, with what has changed of its numbers and the requests that
 * have ended; at most one call a second, and sent again when a call fails.
 * Nothing waits for it but who reads the fleet.
 */
export class FleetReport {
  readonly #ports: FleetReportPorts;
  readonly #changes = new ShareChanges();
  #events: FleetEvent[] = [];
  #ended: RequestRecord[] = [];
  /** A call is planned, or the pause after one is not over. */
  #isPlanned = false;
  /** Something came since the last planned call. */
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

  /** Numbers may have changed. */
  changed(): void {
    this.#plan();
  }

  /** The fleet object has lost the numbers that it was told: it is told all of them next. */
  forget(): void {
    this.#changes.forget();
  }

  /** Sends what is waiting at once; done when the fleet object has heard of all that was told so far, or did not answer. */
  flush(): Promise<void> {
    this.#sending = this.#sending.then(() => this.#send());
    return this.#sending;
  }

  /** Soon after a quiet second, else when the second since the last call is over. */
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
