/** Saves once for all requests, at the earliest time that one of them asked for. */
export class SaveTimer {
  readonly #save: () => void;
  #armed: { timer: ReturnType<typeof setTimeout>; at: number } | null = null;

  constructor(save: () => void) {
    this.#save = save;
  }

  /** At the latest in so many ms. */
  within(ms: number): void {
    const at = Date.now() + ms;
    if (this.#armed && this.#armed.at <= at) return;
    if (this.#armed) clearTimeout(this.#armed.timer);
    const timer = setTimeout(() => {
      this.#armed = null;
      this.#save();
    }, ms);
    this.#armed = { timer, at };
  }
}
