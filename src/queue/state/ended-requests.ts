import type { RequestRecord } from '../../protocol/index.ts';

/** Over which the rate is measured, ms. */
export const WINDOW_MS = 10_000;
/** Successful requests of a window that are all kept; more are sampled. */
export const ORDINARY_A_WINDOW = 500;
/** The same for requests that failed or were slow: far more than a healthy queue has. */
const NOTABLE_A_WINDOW = 5000;
/** Kept until the fleet object is told; beyond it the oldest go. */
const MOST_RECORDS = 20_000;

/**
 * Which of many requests are kept: all of them up to a number in ten seconds, and above it every second, fourth, eighth
 * … by the hash of its id. A second look at an id gets the same answer at the same rate, and what is kept at a
 * high rate is kept at any lower one.
 */
export class Sampler {
  readonly #budget: number;
  #window = 0;
  #seen = 0;
  #seenBefore = 0;

  /** @param budget kept whole in a window */
  constructor(budget: number) {
    this.#budget = budget;
  }

  /** @returns how many it stands for; 0: it is not kept */
  keep(id: string, now: number): number {
    const window = Math.floor(now / WINDOW_MS);
    if (window !== this.#window) {
      this.#seenBefore = window === this.#window + 1 ? this.#seen : 0;
      this.#seen = 0;
      this.#window = window;
    }
    this.#seen += 1;
    const rate = Math.max(this.#seen, this.#seenBefore) / this.#budget;
    if (rate <= 1) return 1;
    const standsFor = 2 ** Math.min(31, Math.ceil(Math.log2(rate)));
    return hash(id) < 2 ** 32 / standsFor ? standsFor : 0;
  }
}

/** Requests that have ended and that the fleet object does not know of yet. In memory alone. */
export class EndedRequests {
  readonly #ordinary = new Sampler(ORDINARY_A_WINDOW);
  readonly #notable = new Sampler(NOTABLE_A_WINDOW);
  #records: RequestRecord[] = [];

  /** Asked first, since a busy queue makes records of only a few. @returns how many it stands for; 0: not kept */
  keep(id: string, isNotable: boolean, now: number): number {
    return (isNotable ? this.#notable : this.#ordinary).keep(id, now);
  }

  add(record: RequestRecord): void {
    this.#records.push(record);
    if (this.#records.length > 2 * MOST_RECORDS) this.#records = this.#records.slice(-MOST_RECORDS);
  }

  /** All of them, oldest first. */
  take(): RequestRecord[] {
    const records = this.#records;
    if (records.length > 0) this.#records = [];
    return records;
  }
}

/** FNV-1a, with the last step of MurmurHash3: ids that differ in their last character differ in the high bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
