/** The same numbers for the same seed. */
export class Random {
  #state: number;

  constructor(start: number) {
    this.#state = start >>> 0;
  }

  /** 0..1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}
