export interface SaveTimerPorts {
  save(): void;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Runs something after a time, ms. @returns calls it off */
  after(ms: number, run: () => void): () => void;
}

/** Saves once for all requests, at the earliest time that one of them asked for. */
export class SaveTimer {
  readonly #ports: SaveTimerPorts;
  #armed: { disarm: () => void; at: number } | null = null;

  constructor(ports: SaveTimerPorts) {
    this.#ports = ports;
  }

  /** Saves in so many ms at the latest. */
  within(ms: number): void {
    const { save, now, after } = this.#ports;
    const at = now() + ms;
    if (this.#armed && this.#armed.at <= at) return;
    this.#armed?.disarm();
    const disarm = after(ms, () => {
      this.#armed = null;
      save();
    });
    this.#armed = { disarm, at };
  }
}
