import type { Timeline } from '../simulation/timeline.ts';
import type { Random } from '../support/random.ts';

/** One way of a call, ms. */
const LATENCY_MS = 30;
/** Until a call that nobody answers fails, ms. */
const FAILS_WITHIN_MS = 30_000;

/** What lies between the queue's object and the fleet's: calls take their time either way, and may come to nothing. */
export class ObjectLink {
  /** Since when nothing comes through, epoch ms; null: it does. */
  downSince: number | null = null;
  /** Calls to come whose effect nobody hears of. */
  answersLost = 0;
  /** Of calls on their way, ms. */
  slowMs = 0;
  readonly #timeline: Timeline;
  readonly #random: Random;

  constructor(timeline: Timeline, random: Random) {
    this.#timeline = timeline;
    this.#random = random;
  }

  get isDown(): boolean {
    return this.downSince !== null;
  }

  /** Whether it has been down for so long that nobody acts on what came before, ms. */
  isDownFor(ms: number): boolean {
    return this.downSince !== null && this.#timeline.now - this.downSince > ms;
  }

  cut(): void {
    this.downSince ??= this.#timeline.now;
  }

  mend(): void {
    this.downSince = null;
  }

  /** @throws Error when there is no answer, whatever has become of what was asked */
  async call<T>(ask: () => T | Promise<T>): Promise<T> {
    await this.#pass();
    const answer = await ask();
    if (this.answersLost > 0) {
      this.answersLost -= 1;
      throw new Error('the answer is lost');
    }
    await this.#pass();
    return answer;
  }

  async #pass(): Promise<void> {
    await this.#timeline.sleep(this.#random.wait(LATENCY_MS) + this.#random.int(0, this.slowMs));
    if (!this.isDown) return;
    await this.#timeline.sleep(this.#random.int(0, FAILS_WITHIN_MS));
    throw new Error('the object does not answer');
  }
}
