/** Seconds that an amount counts for, after the end of its own second. */
const COUNTS_SECONDS = 60;

/** Of one second: when it began, epoch s, and what was added in it. */
export type WindowSlot = [second: number, amount: number];

/**
 * What was used within the last minute. An amount counts until 60 s after the end of the second that it was added in,
 * so that no 60 s, wherever they begin, have more than the sum ever was; what is used is forgotten up to a second late.
 */
export class SlidingWindow {
  /** Oldest first. */
  readonly #slots: WindowSlot[];
  #sum: number;

  /** @param slots of an earlier window @param now epoch ms: a clock that was set back leaves nothing in the future */
  constructor(slots: readonly WindowSlot[] = [], now = 0) {
    this.#slots = slots.map(([second, amount]) => [Math.min(second, secondOf(now)), amount]);
    this.#sum = this.#slots.reduce((sum, [, amount]) => sum + amount, 0);
  }

  /**
   * @param at epoch ms
   * @param amount less than 0: so much of what was added in the same second was too much. Nothing is taken from other
   * seconds: what others have used would be forgotten before its minute is over.
   */
  add(at: number, amount: number): void {
    this.sum(at);
    const second = secondOf(at);
    const index = this.#slots.findLastIndex(([own]) => own <= second);
    const slot = this.#slots[index];
    if (slot?.[0] !== second) {
      if (amount <= 0) return;
      this.#slots.splice(index + 1, 0, [second, amount]);
      this.#sum += amount;
      return;
    }
    const change = Math.max(amount, -slot[1]);
    slot[1] += change;
    this.#sum += change;
    if (slot[1] === 0) this.#slots.splice(index, 1);
  }

  sum(now: number): number {
    while (this.#slots.length > 0 && endOf(this.#slots[0]!) <= now) this.#sum -= this.#slots.shift()![1];
    return this.#sum;
  }

  /** Epoch ms from which on no more than this is in it, if nothing is added. @param most at least 0 */
  fallsTo(most: number, now: number): number {
    let left = this.sum(now);
    for (const slot of this.#slots) {
      if (left <= most) break;
      left -= slot[1];
      if (left <= most) return endOf(slot);
    }
    return now;
  }

  /** Epoch ms from which on nothing is in it, if nothing is added. */
  emptyAt(now: number): number {
    this.sum(now);
    const newest = this.#slots.at(-1);
    return newest === undefined ? now : endOf(newest);
  }

  /** What a window of the object's next life is made of. */
  slots(now: number): WindowSlot[] {
    this.sum(now);
    return this.#slots;
  }
}

function secondOf(now: number): number {
  return Math.floor(now / 1000);
}

/** Epoch ms at which it counts no more. */
function endOf([second]: WindowSlot): number {
  return (second + 1 + COUNTS_SECONDS) * 1000;
}
