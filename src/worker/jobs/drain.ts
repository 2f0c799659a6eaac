import { endOfStep } from '../../process/way-down.ts';
import type { Clock, Timer } from '../clock.ts';

/** What comes after the grace, ms. */
const FORCE_MS = endOfStep('acknowledgements');

/**
 * - `finishing` → `settling` (nothing runs any more, or the grace is over and the rest was released)
 * - `settling`  → `done` (everything acknowledged, or the force clock ran out)
 * - `done` is final.
 */
export type DrainPhase = 'finishing' | 'settling' | 'done';

export interface DrainPorts {
  clock: Clock;
  /** Jobs in slots. */
  running(): number;
  /** Nothing waits for the queue or the relay any more. */
  isSettled(): boolean;
  /** Aborts what runs and releases it; what is slow to settle takes its shortest way. May come again. */
  graceOver(): void;
  done(): void;
}

/** The end of a worker under two clocks: jobs have the grace, acknowledgements the grace and FORCE_MS. */
export class Drain {
  readonly #ports: DrainPorts;
  #phase: DrainPhase = 'finishing';
  #graceTimer: Timer;
  #forceTimer: Timer;
  /** Epoch ms at which the force clock runs out. */
  #endsAt: number;

  constructor(ports: DrainPorts, graceMs: number) {
    this.#ports = ports;
    this.#graceTimer = ports.clock.setTimeout(() => this.#graceOver(), graceMs);
    this.#endsAt = ports.clock.now() + graceMs + FORCE_MS;
    this.#forceTimer = ports.clock.setTimeout(() => this.#finish(), graceMs + FORCE_MS);
  }

  /** Time that both clocks still have, ms; none after `force`. */
  get leftMs(): number {
    return Math.max(0, this.#endsAt - this.#ports.clock.now());
  }

  get phase(): DrainPhase {
    return this.#phase;
  }

  /** Called whenever a job has ended or was acknowledged. */
  check(): void {
    // Called in the middle of a release, too: not before the last one is out of its slot.
    if (this.#ports.running() > 0) return;
    if (this.#phase === 'finishing') this.#phase = 'settling';
    if (this.#phase === 'settling' && this.#ports.isSettled()) this.#finish();
  }

  /** The grace ends at once: jobs that run are released now. */
  hurry(): void {
    if (this.#phase !== 'finishing') return;
    const { clock } = this.#ports;
    clock.clearTimeout(this.#graceTimer);
    clock.clearTimeout(this.#forceTimer);
    this.#endsAt = clock.now() + FORCE_MS;
    this.#forceTimer = clock.setTimeout(() => this.#finish(), FORCE_MS);
    this.#graceOver();
  }

  /** Ends at once, whatever is unfinished. */
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
