import type { EngineDescription, EngineFailure } from '../engine/kinds/description.ts';
import type { Clock } from '../process/clock.ts';

/** An engine that has said why it cannot start, and then says nothing more for this long, hangs, ms. */
const QUIET_MS = 5000;
/** An engine that has said why it cannot start has this long to end by itself, however much it still says, ms. */
const AT_MOST_MS = 30_000;

export interface DecisiveLinePorts {
  engine: Pick<EngineDescription, 'decisiveFailure'>;
  clock: Clock;
  /** Called when the engine neither ended nor went on, and should be killed. */
  onHang(failure: EngineFailure): void;
}

/**
 * Watches a starting engine for a line which says that it will not start on this machine: a driver too old, no GPU,
 * memory that does not suffice. Most engines exit after it; one that hangs instead is killed early, not at the limit of
 * its start. An engine may write such a line about something that it can do without, so a further step of the start
 * withdraws the line.
 */
export class DecisiveLine {
  readonly #ports: DecisiveLinePorts;
  #failure: EngineFailure | null = null;
  #quiet: unknown = null;
  #limit: unknown = null;
  #isOver = false;

  constructor(ports: DecisiveLinePorts) {
    this.#ports = ports;
  }

  see(line: string): void {
    if (this.#isOver) return;
    const { engine, clock } = this.#ports;
    if (this.#failure === null) {
      this.#failure = engine.decisiveFailure(line);
      if (this.#failure === null) return;
      this.#limit = clock.setTimeout(() => this.#hangs(), AT_MOST_MS);
    }
    clock.clearTimeout(this.#quiet);
    this.#quiet = clock.setTimeout(() => this.#hangs(), QUIET_MS);
  }

  /** Withdraws the line, as the start went a step further. */
  goesOn(): void {
    this.#failure = null;
    this.#ports.clock.clearTimeout(this.#quiet);
    this.#ports.clock.clearTimeout(this.#limit);
  }

  /** Stops to watch an engine that ended, became healthy, or is being ended. */
  stop(): void {
    this.#isOver = true;
    this.goesOn();
  }

  #hangs(): void {
    const failure = this.#failure;
    this.stop();
    if (failure) this.#ports.onHang(failure);
  }
}
