import type { Clock } from './clock.ts';
import { reasonOf } from './http.ts';
import type { Outage } from './outage.ts';
import { withTimeout } from './timeout.ts';

/** A log line in the form of the receiver at `CASOLA_LOGS_URL`. */
export interface LogEntry {
  /** The time of the line, whole epoch seconds. */
  timestamp: number;
  level: 'info' | 'warning' | 'error';
  /** The line's origin; `vllm` stands for any engine. */
  source: 'worker' | 'vllm';
  message: string;
  job_id?: string;
  config_id?: string;
}

/** The most lines in a batch, by the base protocol. */
const MOST_IN_BATCH = 1000;
/**
 * The most bytes of a batch as JSON, which makes six of a control character. Proxies take 1 MB by default, and a batch
 * that is too large once is refused for ever.
 */
const MOST_BYTES = 900_000;
const MOST_KEPT = 10_000;
/** The most characters of a message; with MOST_KEPT it bounds the memory during a receiver's outage to some 40 MB. */
const LONGEST_MESSAGE = 4096;

export interface LogShipperPorts {
  clock: Clock;
  intervalMs: number;
  /** Posts a batch. Rejects if it was refused or did not arrive. */
  post(entries: LogEntry[]): Promise<void>;
  /** The outage that is told after each batch whether it arrived. */
  outage: Outage;
}

/**
 * Buffers log lines and sends them in order, in batches; a refused batch is sent again. Never throws. When the
 * buffer is full the oldest lines are dropped, and the next batch says how many.
 */
export class LogShipper {
  readonly #ports: LogShipperPorts;
  #entries: LogEntry[] = [];
  #dropped = 0;
  #posting: Promise<void> | null = null;
  #timer: unknown;

  constructor(ports: LogShipperPorts) {
    this.#ports = ports;
  }

  /** Sends the buffered lines once an interval from now on. */
  start(): void {
    const { clock, intervalMs } = this.#ports;
    this.#timer = clock.setTimeout(() => {
      void this.flush();
      this.start();
    }, intervalMs);
  }

  add(entry: LogEntry): void {
    this.#entries.push({ ...entry, message: cut(entry.message) });
    this.#dropOldest();
    // A full batch does not wait for the interval, unless the receiver is failing.
    if (this.#entries.length >= MOST_IN_BATCH && !this.#ports.outage.isOn) void this.flush();
  }

  /** Sends everything, one batch at a time, until one is refused. */
  flush(): Promise<void> {
    this.#posting ??= this.#postAll().finally(() => {
      this.#posting = null;
    });
    return this.#posting;
  }

  /** Stops the interval and sends the rest; resolves when that is sent or refused, or at the limit. */
  async close(limitMs: number): Promise<void> {
    const { clock } = this.#ports;
    clock.clearTimeout(this.#timer);
    if (limitMs <= 0) return;
    const postLast = async () => {
      await this.#posting;
      await this.flush();
    };
    await withTimeout(clock, limitMs, postLast).catch(() => {});
  }

  async #postAll(): Promise<void> {
    while (this.#entries.length > 0) {
      const dropped = this.#dropped;
      const batch = this.#entries.splice(0, this.#fitting(dropped > 0 ? MOST_IN_BATCH - 1 : MOST_IN_BATCH));
      const whole = dropped > 0 ? [gap(dropped, batch[0]!), ...batch] : batch;
      try {
        await this.#ports.post(whole);
      } catch (error) {
        this.#entries.unshift(...batch);
        this.#dropOldest();
        this.#ports.outage.report(reasonOf(error));
        return;
      }
      this.#dropped -= dropped;
      this.#ports.outage.report(null);
    }
  }

  /** Returns how many of the oldest lines make a batch, at least one. */
  #fitting(most: number): number {
    let bytes = 0;
    const end = this.#entries.slice(0, most).findIndex((entry) => {
      bytes += Buffer.byteLength(JSON.stringify(entry)) + 1;
      return bytes > MOST_BYTES;
    });
    return end < 0 ? most : Math.max(1, end);
  }

  #dropOldest(): void {
    const tooMany = this.#entries.length - MOST_KEPT;
    if (tooMany <= 0) return;
    this.#entries.splice(0, tooMany);
    this.#dropped += tooMany;
  }
}

/** The line that takes the place of dropped ones. */
function gap(dropped: number, next: LogEntry): LogEntry {
  const { timestamp, config_id } = next;
  const message = `${dropped} older log lines were dropped: they could not be sent in time`;
  return {
    timestamp,
    level: 'warning',
    source: 'worker',
    message,
    ...(config_id === undefined ? {} : { config_id }),
  };
}

function cut(message: string): string {
  return message.length <= LONGEST_MESSAGE ? message : `${message.slice(0, LONGEST_MESSAGE)}… (cut)`;
}
