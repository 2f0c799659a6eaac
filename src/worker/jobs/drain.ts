import { endOfStep } from '../../process/way-down.ts';
import type { Clock, Timer } from '../clock.ts';

/** The time that a drain has after the grace, ms. */
const FORCE_MS = endOfStep('acknowledgements');

/**
 * - `finishing` → `settling` (no job runs any more, or the grace is over and the rest was released)
 * - `settling`  → `done` (everything acknowledged, or the force clock ran out)
 * - `done` is final.
 */
export type DrainPhase = 'finishing' | 'settling' | 'done';

export interface DrainPorts {
  clock: Clock;
  /** Returns the number of jobs in slots. */
  running(): number;
  /** Tells whether nothing waits for the queue or the relay any more. */
  isSettled(): boolean;
  /** Aborts and releases the running jobs, and shortens whatever is slow to settle. May be called again. */
  graceOver(): void;
  done(): void;
}

/** Ends a worker under two clocks: jobs have the grace, acknowledgements the grace and FORCE_MS. */
export class Drain {
  readonly #ports: DrainPorts;
  #phase: DrainPhase = 'finishing';
  #graceTimer: Timer;
  #forceTimer: Timer;
  /** The time at which the force clock runs out, epoch ms. */
  #endsAt: number;

  constructor(ports: DrainPorts, graceMs: number) {
    this.#ports = ports;
    this.#graceTimer = ports.clock.setTimeout(() => this.#graceOver(), graceMs);
    this.#endsAt = ports.clock.now() + graceMs + FORCE_MS;
    this.#forceTimer = ports.clock.setTimeout(() => this.#finish(), graceMs + FORCE_MS);
  }

  /** The time left until the force clock runs out, ms; 0 after `force`. */
  get leftMs(): number {
    return Math.max(0, this.#endsAt - this.#ports.clock.now());
  }

  get phase(): DrainPhase {
    return this.#phase;
  }

  /** Ends the drain if it can; called whenever a job has ended or was acknowledged. */
  check(): void {
    // A release calls this method before its last job is out of its slot.
    if (this.#ports.running() > 0) return;
    if (this.#phase === 'finishing') this.#phase = 'settling';
    if (this.#phase === 'settling' && this.#ports.isSettled()) this.#finish();
  }

  /**
   * Shortens the grace, and the time for what waits for an acknowledgement; a longer one than what is left of it
   * changes nothing. Without grace, running jobs are released now.
   */
  within(graceMs: number): void {
    const { clock } = this.#ports;
    const endsAt = clock.now() + graceMs + FORCE_MS;
    if (this.#phase === 'done' || endsAt >= this.#endsAt) return;
    clock.clearTimeout(this.#forceTimer);
    this.#endsAt = endsAt;
    this.#forceTimer = clock.setTimeout(() => this.#finish(), graceMs + FORCE_MS);
    if (this.#phase !== 'finishing') return;
    clock.clearTimeout(this.#graceTimer);
    if (graceMs > 0) this.#graceTimer = clock.setTimeout(() => this.#graceOver(), graceMs);
    else this.#graceOver();
  }

  /** Ends the drain at once, whatever is unfinished. */
  force(): void {
    if (this.#phase !== 'done') this.#ports.graceOver();
    this.#endsAt = this.#ports.clock.now();
    this.#finish();
  }

  #graceOver(): void {
    if (this.#phase === 'done') return;
    this.#phase = 'settling';
    this.#ports.graceOver();
    this.check();
  }

  #finish(): void {
    if (this.#phase === 'done') return;
    this.#phase = 'done';
    this.#ports.clock.clearTimeout(this.#graceTimer);
    this.#ports.clock.clearTimeout(this.#forceTimer);
    this.#ports.done();
  }
}
