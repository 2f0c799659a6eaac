/**
 * The one source of chance: mulberry32, the same numbers on every machine. Each part of a run has a stream of
 * its own, named, so that leaving one part out (when a failing run is shrunk) does not change the others.
 */
export class Random {
  #state: number;

  constructor(seed: number, name: string) {
    let state = seed ^ 0x9e3779b9;
    for (let at = 0; at < name.length; at++) state = Math.imul(state ^ name.charCodeAt(at), 0x01000193);
    this.#state = state;
  }

  /** 0 (inclusive) to 1 (exclusive). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number, both ends included. */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  /** A whole number from 0, smaller than this. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  /** Mostly short, now and then long: exponential around a mean, ms, at most `most`. */
  wait(meanMs: number, most = meanMs * 20): number {
    return Math.min(most, Math.round(-Math.log(1 - this.next()) * meanMs));
  }
}
