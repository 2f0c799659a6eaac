import type { Log } from '../../../durable/host.ts';
import { systemClock, type Timer } from '../../../process/clock.ts';
import type { Journal, Lease } from './journal.ts';

/** A lease runs for this many ms. Another process takes over when it has run out by the clock of the server. */
export const LEASE_MS = 3000;
const RENEW_EVERY_MS = 1000;

interface HeldLeasePorts {
  /** Called when the lease has run out here: nothing may leave this process until it is renewed. */
  ranOut(error: Error): void;
  /** Called at each renewal while the lease is another process's, which may not be the owner yet. */
  taken(): void;
  /** Returns the time of a clock that never goes back, ms. It may stand still while the machine sleeps. */
  now(): number;
  /** Returns the time of the wall clock, ms, which goes on while the machine sleeps. */
  wallTime(): number;
  log: Log;
}

/** The error of calls while the owner does not know whether it still is the owner. */
export class JournalUnreachable extends Error {
  readonly retryable = false;
  constructor() {
    super('the journal cannot be reached: JOURNAL_UNREACHABLE');
  }
}

/**
 * Renews the lease of an owner. By the clocks of this process, the lease runs out no later than by the server's, since
 * it is counted from before each renewal was sent; a process that was stopped for long finds it run out, and so does one
 * whose machine has slept.
 */
export class HeldLease {
  readonly #journal: Journal;
  readonly #lease: Lease;
  readonly #ports: HeldLeasePorts;
  #until: number;
  /** The same by the wall clock. */
  #untilByWall: number;
  #renewing: Timer;
  #runsOut: Timer;
  #hasRunOut = false;
  #hasEnded = false;

  /** @param renewedAt the time before the lease was first set, by the clock of the ports */
  constructor(journal: Journal, lease: Lease, renewedAt: number, ports: HeldLeasePorts) {
    this.#journal = journal;
    this.#lease = lease;
    this.#ports = ports;
    this.#until = renewedAt + LEASE_MS;
    this.#untilByWall = ports.wallTime() + this.#until - ports.now();
    this.#renewLater();
    this.#watch();
  }

  /** Why this process must not act now; null: it holds the lease. */
  get problem(): Error | null {
    const { now, wallTime } = this.#ports;
    if (now() < this.#until && wallTime() < this.#untilByWall && !this.#hasEnded) return null;
    this.#expired();
    return new JournalUnreachable();
  }

  /** Stops renewing, and gives the lease up if the journal can be reached. */
  async end(): Promise<void> {
    this.stop();
    await this.#journal.renewLease(this.#lease, 0).catch(() => {});
  }

  /** Stops renewing. */
  stop(): void {
    this.#hasEnded = true;
    systemClock.clearTimeout(this.#renewing);
    systemClock.clearTimeout(this.#runsOut);
  }

  #renewLater(): void {
    this.#renewing = systemClock.setTimeout(() => void this.#renew(), RENEW_EVERY_MS);
  }

  async #renew(): Promise<void> {
    const at = this.#ports.now();
    const atByWall = this.#ports.wallTime();
    try {
      const isOurs = await this.#journal.renewLease(this.#lease, LEASE_MS);
      if (this.#hasEnded) return;
      if (isOurs) this.#renewed(at, atByWall);
      else this.#ports.taken();
    } catch (error) {
      this.#ports.log('debug', 'the lease was not renewed', { error: String(error) });
    }
    if (!this.#hasEnded) this.#renewLater();
  }

  #renewed(at: number, atByWall: number): void {
    this.#until = at + LEASE_MS;
    this.#untilByWall = atByWall + LEASE_MS;
    if (this.#hasRunOut && this.problem === null) {
      this.#hasRunOut = false;
      this.#ports.log('info', 'the lease is renewed: calls are answered again', {});
    }
    this.#watch();
  }

  #watch(): void {
    systemClock.clearTimeout(this.#runsOut);
    this.#runsOut = systemClock.setTimeout(
      () => void this.problem,
      Math.max(0, this.#until - this.#ports.now()),
    );
  }

  #expired(): void {
    if (this.#hasRunOut || this.#hasEnded) return;
    this.#hasRunOut = true;
    this.#ports.log(
      'warn',
      'the journal has not renewed the lease in time: calls are refused and sockets closed until it does',
      {},
    );
    this.#ports.ranOut(new JournalUnreachable());
  }
}
