/** The rate is taken from this many jobs. */
const SAMPLES = 16;
/** A sample older than this says nothing about the present load, ms. */
const FRESH_MS = 5 * 60_000;
/** An answer of fewer tokens than this says more about its prompt than about generation. */
const FEWEST_TOKENS = 8;

interface Sample {
  tokensPerSecond: number;
  atMs: number;
}

/**
 * How fast one request generates here at present, learned from finished jobs: their tokens over their whole time in the
 * engine, waiting and prompt included. The fastest of the recent jobs counts: a job that cannot end at this rate cannot
 * end even if all goes well.
 */
export class TokenRate {
  #samples: Sample[] = [];

  /** Learns from a finished job. @param tokens generated for one choice */
  finished(tokens: number, tookMs: number, nowMs: number): void {
    if (tokens < FEWEST_TOKENS || tookMs <= 0) return;
    this.#samples.push({ tokensPerSecond: (tokens * 1000) / tookMs, atMs: nowMs });
    if (this.#samples.length > SAMPLES) this.#samples.shift();
  }

  /** Returns the tokens a second of one request; null when nothing recent is known. */
  tokensPerSecond(nowMs: number): number | null {
    const fresh = this.#samples.filter(({ atMs }) => nowMs - atMs <= FRESH_MS);
    if (fresh.length === 0) return null;
    return Math.max(...fresh.map((sample) => sample.tokensPerSecond));
  }
}
