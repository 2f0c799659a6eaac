/** Sums of vectors over a number of the newest steps. */
export class RollingSum {
  readonly #stepMs: number;
  readonly #steps: number;
  readonly #length: number;
  /** The sum of each step by its number, in the order of their first addition. */
  readonly #byStep = new Map<number, Float64Array>();
  readonly #total: Float64Array;

  /** @param length of the vectors */
  constructor(stepMs: number, steps: number, length: number) {
    this.#stepMs = stepMs;
    this.#steps = steps;
    this.#length = length;
    this.#total = new Float64Array(length);
  }

  /** @param at epoch ms */
  add(at: number, values: Float64Array): void {
    const number = Math.floor(at / this.#stepMs);
    const step = this.#byStep.get(number) ?? new Float64Array(this.#length);
    this.#byStep.set(number, step);
    for (let index = 0; index < this.#length; index++) {
      step[index]! += values[index]!;
      this.#total[index]! += values[index]!;
    }
  }

  /**
   * Returns the sum of the steps up to the one of this moment. Callers must not keep it: it changes with the next call.
   */
  sum(now: number): Float64Array {
    const oldest = Math.floor(now / this.#stepMs) - this.#steps + 1;
    for (const [number, step] of this.#byStep) {
      if (number >= oldest) continue;
      this.#byStep.delete(number);
      for (let index = 0; index < this.#length; index++) this.#total[index]! -= step[index]!;
    }
    return this.#total;
  }
}
