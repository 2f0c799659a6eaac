import { type deliver as Deliver, isTaken } from '../../../durable/deliver.ts';
import type { Alarm } from '../../../durable/ports.ts';
import { doubling } from '../../../process/backoff.ts';
import type { FleetView } from '../../../protocol/index.ts';
import type { AlertMessage, Alerts } from './alerts.ts';

/** The pause after a post that the receiver did not take, ms; it doubles with each such post in a row. */
const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 10 * 60_000;

export interface AlertPosterPorts {
  alerts: Alerts;
  /** Returns the fleet as it is now. */
  view(): Promise<FleetView>;
  /** The secret address to which the list is posted; empty: nowhere. */
  url: string;
  /** The queue's id, put in front of each line; null: nothing is. */
  queueId: string | null;
  alarm: Alarm;
  /** The interval at which the list is read while there are workers, ms: many problems arise by time alone. */
  everyMs: number;
  now(): number;
  commit<T>(work: () => T): T;
  /** Posts to the url. */
  post(body: string): ReturnType<typeof Deliver>;
  /** Keeps the object at work until this settles. */
  background(work: Promise<void>): void;
  log(level: 'info' | 'warn', message: string): void;
}

/** Posts what appears in the attention list and what disappears, in Slack's form, until the receiver takes it. */
export class AlertPoster {
  readonly #ports: AlertPosterPorts;
  #failures = 0;
  #retryAt = 0;
  #isPosting = false;

  constructor(ports: AlertPosterPorts) {
    this.#ports = ports;
  }

  /** Starts reading the list regularly; called when the fleet has news. */
  heard(): void {
    const { url, alarm, now, everyMs } = this.#ports;
    if (url !== '' && alarm.get() === null) alarm.set(now() + everyMs);
  }

  /** Reads the list, and posts its news without waiting for the receiver. */
  async postNews(): Promise<void> {
    const { alerts, view, url, queueId, alarm, now, everyMs, background } = this.#ports;
    if (url === '') return alarm.clear();
    // The alarm is set first, so that a failure below does not end the reading.
    alarm.set(now() + everyMs);
    const shown = await view();
    const message = alerts.message(queueId, now());
    if (message === null && isStill(shown) && alerts.isQuiet) return alarm.clear();
    if (message === null || this.#isPosting || now() < this.#retryAt) return;
    background(this.#post(message));
  }

  async #post(message: AlertMessage): Promise<void> {
    const { alerts, post, commit, now, log } = this.#ports;
    this.#isPosting = true;
    const answer = await post(JSON.stringify({ text: message.text }));
    this.#isPosting = false;
    if ('status' in answer && isTaken(answer.status)) {
      if (this.#failures > 0) log('info', 'QUEUE_ALERT_URL takes alerts again');
      this.#failures = 0;
      return commit(() => alerts.told(message));
    }
    this.#failures += 1;
    const pauseMs = doubling(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, this.#failures);
    this.#retryAt = now() + pauseMs;
    // The log names neither the address, which lets anybody post there, nor the runtime's message, which may hold the
    // address.
    const why = 'status' in answer ? `it answered ${answer.status}` : 'it did not answer';
    log('warn', `QUEUE_ALERT_URL does not take alerts: ${why}; trying again in ${pauseMs / 1000} s`);
  }
}

/** Returns whether nothing needs attention and time alone will not change that. */
function isStill({ attention, workers, scaling }: FleetView): boolean {
  const isOver = ({ state }: FleetView['workers'][number]) => state === 'stopped' || state === 'lost';
  return attention.length === 0 && scaling === null && workers.every(isOver);
}
