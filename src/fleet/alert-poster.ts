import { type deliver as Deliver, isTaken } from '../durable/deliver.ts';
import type { Alarm } from '../durable/ports.ts';
import { doubling } from '../process/backoff.ts';
import type { FleetView } from '../protocol/index.ts';
import type { AlertMessage, Alerts } from './alerts.ts';

/** Pause after a post that the receiver did not take, doubled with each in a row, ms. */
const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 10 * 60_000;

export interface AlertPosterPorts {
  alerts: Alerts;
  /** The fleet as it is now. */
  view(): Promise<FleetView>;
  /** Where the list is posted; a secret. Empty: nowhere. */
  url: string;
  /** In front of each line; null: none. */
  queueId: string | null;
  alarm: Alarm;
  /** How often the list is looked at while there are workers, ms: many problems arise by time alone. */
  everyMs: number;
  now(): number;
  commit<T>(work: () => T): T;
  /** Posts to the url. */
  post(body: string): ReturnType<typeof Deliver>;
  /** Keeps the object at work until this settles. */
  background(work: Promise<void>): void;
  log(level: 'info' | 'warn', message: string): void;
}

/** Posts what comes and what goes of the attention list, as Slack takes it, until the receiver takes it. */
export class AlertPoster {
  readonly #ports: AlertPosterPorts;
  #failures = 0;
  #retryAt = 0;
  #isPosting = false;

  constructor(ports: AlertPosterPorts) {
    this.#ports = ports;
  }

  /** The fleet has news: from now on the list is looked at. */
  heard(): void {
    const { url, alarm, now, everyMs } = this.#ports;
    if (url !== '' && alarm.get() === null) alarm.set(now() + everyMs);
  }

  /** Looks at the list, and posts its news without waiting for the receiver. */
  async postNews(): Promise<void> {
    const { alerts, view, url, queueId, alarm, now, everyMs, background } = this.#ports;
    if (url === '') return alarm.clear();
    // Set first, so that a failure here does not end the looking.
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
    // Neither the address, which lets anybody write there, nor what the runtime says, which may hold it.
    const why = 'status' in answer ? `it answered ${answer.status}` : 'it did not answer';
    log('warn', `QUEUE_ALERT_URL does not take alerts: ${why}; trying again in ${pauseMs / 1000} s`);
  }
}

/** Nothing needs attention, and time alone will not bring anything. */
function isStill({ attention, workers, scaling }: FleetView): boolean {
  const isOver = ({ state }: FleetView['workers'][number]) => state === 'stopped' || state === 'lost';
  return attention.length === 0 && scaling === null && workers.every(isOver);
}
