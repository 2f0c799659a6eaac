/** Smaller corrections of a clock pass by themselves, ms. */
const SET_MS = 1000;
const LOOK_EVERY_MS = 1000;

interface ClockWatchPorts {
  /** Times that were set with the clock of before are far away by the new one. */
  setBack(): void;
  /** Timers come late, since they count on another clock. */
  setForward(): void;
}

/** Sees that somebody sets the wall clock: it moves against a clock that nobody sets. */
export class ClockWatch {
  readonly #ports: ClockWatchPorts;
  readonly #timer: NodeJS.Timeout;
  /** Epoch ms at which that clock was 0, as it follows from the wall clock. */
  #began = began();
  #soon: NodeJS.Immediate | null = null;

  constructor(ports: ClockWatchPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS);
    this.#timer.unref();
  }

  /** Not in the middle of the work of an object that has noticed something. */
  lookSoon(): void {
    this.#soon ??= setImmediate(() => this.look());
  }

  look(): void {
    this.#soon = null;
    const now = began();
    const movedMs = now - this.#began;
    if (Math.abs(movedMs) <= SET_MS) return;
    this.#began = now;
    if (movedMs < 0) this.#ports.setBack();
    else this.#ports.setForward();
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

function began(): number {
  return Date.now() - performance.now();
}
