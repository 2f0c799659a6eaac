/** The watch ignores corrections of the clock up to this many ms: they pass by themselves. */
const SET_MS = 1000;
const LOOK_EVERY_MS = 1000;

interface ClockWatchPorts {
  /** The clock was set back: times that were set before are far away by the new clock. */
  setBack(): void;
  /** The clock was set forward: timers come late, since they count on another clock. */
  setForward(): void;
}

/** Notices that somebody sets the wall clock: it then moves against the monotonic clock. */
export class ClockWatch {
  readonly #ports: ClockWatchPorts;
  readonly #timer: NodeJS.Timeout;
  /** The time at which the monotonic clock was 0, by the wall clock, epoch ms. */
  #began = began();
  #soon: NodeJS.Immediate | null = null;

  constructor(ports: ClockWatchPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS);
    this.#timer.unref();
  }

  /** Looks in the next turn, not in the middle of the work of the object that has noticed a change. */
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
