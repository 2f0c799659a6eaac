import type { RequestRecord } from '../../protocol/index.ts';

/** The length of the window in which the rate is measured, ms. */
export const WINDOW_MS = 10_000;
/** Successful requests of one window that are all kept; above this number they are sampled. */
export const ORDINARY_A_WINDOW = 500;
/** Failed or slow requests of one window that are all kept: far more than a healthy queue has. */
const NOTABLE_A_WINDOW = 5000;
/** Records that are kept at least until the fleet object takes them; at twice this number the oldest are dropped. */
const MOST_RECORDS = 20_000;

/**
 * Decides which of many requests are kept: all of them up to a budget per window, and above it every second, fourth,
 * eighth … by the hash of the request's id. A second look at an id gets the same answer at the same rate, and what is
 * kept at a high rate is kept at any lower one.
 */
export class Sampler {
  readonly #budget: number;
  #window = 0;
  #seen = 0;
  #seenBefore = 0;

  /** @param budget requests of one window that are all kept */
  constructor(budget: number) {
    this.#budget = budget;
  }

  /** Decides whether to keep a request. @returns how many requests it stands for; 0 if it is not kept */
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

/** Requests that have ended and that the fleet object does not know of yet, in memory alone. */
export class EndedRequests {
  readonly #ordinary = new Sampler(ORDINARY_A_WINDOW);
  readonly #notable = new Sampler(NOTABLE_A_WINDOW);
  #records: RequestRecord[] = [];

  /** Decides on a request before its record is made, since a busy queue makes few. @returns as of `Sampler.keep` */
  keep(id: string, isNotable: boolean, now: number): number {
    return (isNotable ? this.#notable : this.#ordinary).keep(id, now);
  }

  add(record: RequestRecord): void {
    this.#records.push(record);
    if (this.#records.length > 2 * MOST_RECORDS) this.#records = this.#records.slice(-MOST_RECORDS);
  }

  /** Takes all records, oldest first. */
  take(): RequestRecord[] {
    const records = this.#records;
    if (records.length > 0) this.#records = [];
    return records;
  }
}

/** Hashes by FNV-1a with MurmurHash3's last step: ids that differ in their last character differ in the high bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
