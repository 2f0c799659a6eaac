import type { FleetEvent } from '../../fleet/rpc.ts';

/** Events wait this long for others to be sent with, ms. */
const SEND_AFTER_MS = 1000;
/** In one call, which carries 32 MiB. */
const EVENTS_A_CALL = 200;
/** Kept while the fleet object cannot be reached; beyond it the oldest go. */
const MOST_EVENTS = 2000;

interface FleetReportPorts {
  send(events: FleetEvent[]): Promise<void>;
  /** Runs something later, ms. */
  after(ms: number, run: () => void): void;
  /** Called at the first call that fails, not again before one works. */
  failed(error: unknown): void;
}

/**
 * What the queue tells its fleet object: in order, at most one call a second, and sent again when a call fails.
 * Nothing waits for it but who reads the fleet.
 */
export class FleetReport {
  readonly #ports: FleetReportPorts;
  #events: FleetEvent[] = [];
  #isPlanned = false;
  #isFailing = false;
  #sending: Promise<void> = Promise.resolve();

  constructor(ports: FleetReportPorts) {
    this.#ports = ports;
  }

  tell(event: FleetEvent): void {
    this.#events.push(event);
    this.#plan();
  }

  /** Sends what is waiting at once; done when the fleet object has heard of all that was told so far, or did not answer. */
  flush(): Promise<void> {
    this.#sending = this.#sending.then(() => this.#send());
    return this.#sending;
  }

  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    this.#ports.after(SEND_AFTER_MS, () => {
      this.#isPlanned = false;
      void this.flush();
    });
  }

  async #send(): Promise<void> {
    while (this.#events.length > 0) {
      const events = this.#events.splice(0, EVENTS_A_CALL);
      try {
        await this.#ports.send(events);
        this.#isFailing = false;
      } catch (error) {
        if (!this.#isFailing) this.#ports.failed(error);
        this.#isFailing = true;
        this.#events = [...events, ...this.#events].slice(-MOST_EVENTS);
        this.#plan();
        return;
      }
    }
  }
}
