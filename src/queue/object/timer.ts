/** One timer, moved forward when something is due earlier. */
export class Timer {
  readonly #run: (at: number) => void;
  #set: { at: number; timer: ReturnType<typeof setTimeout> } | null = null;

  /** @param run told when it was due, epoch ms */
  constructor(run: (at: number) => void) {
    this.#run = run;
  }

  /** @param at epoch ms; null: nothing is due, and the timer stays as it is */
  arm(at: number | null): void {
    if (at === null || (this.#set !== null && this.#set.at <= at)) return;
    if (this.#set !== null) clearTimeout(this.#set.timer);
    const fire = () => {
      this.#set = null;
      this.#run(at);
    };
    this.#set = { at, timer: setTimeout(fire, Math.max(1, at - Date.now())) };
  }
}
