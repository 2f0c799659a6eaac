import type { EndedAttempt, WorkObserver } from '../ports.ts';

/** The number of times to the first token that are kept: enough for a median. */
const FIRST_TOKENS_KEPT = 1000;

/** Counts what this process did with jobs since its start. */
export class WorkTally implements WorkObserver {
  missedRenewals = 0;
  /** The tokens generated, as far as the engine reported them. */
  generatedTokens = 0;
  /** Called with each ended attempt. */
  listener: ((attempt: EndedAttempt) => void) | null = null;
  #hasRequested = false;
  #firstTokens: number[] = [];
  readonly #firstRequest: () => void;

  /** @param firstRequest called when the first job went to the engine */
  constructor(firstRequest: () => void) {
    this.#firstRequest = firstRequest;
  }

  requested(): void {
    if (!this.#hasRequested) this.#firstRequest();
    this.#hasRequested = true;
  }

  ended(attempt: EndedAttempt): void {
    const { firstTokenMs, usage } = attempt;
    this.listener?.(attempt);
    this.generatedTokens += usage?.completion_tokens ?? 0;
    if (firstTokenMs !== null && this.#firstTokens.length < FIRST_TOKENS_KEPT)
      this.#firstTokens.push(firstTokenMs);
  }

  renewalMissed(): void {
    this.missedRenewals += 1;
  }

  /** Returns the median time to the first token since the last call, ms; undefined: there was none. */
  takeFirstTokenMs(): number | undefined {
    const sorted = this.#firstTokens.sort((a, b) => a - b);
    this.#firstTokens = [];
    return sorted[Math.floor(sorted.length / 2)];
  }
}

/** A rate over less time than this says too little, ms. */
const SHORTEST_MS = 1000;

/** Turns a counter, read at intervals, into a rate. */
export class RateMeter {
  #last: { total: number; atMs: number } | null = null;
  #perSecond: number | undefined;

  /** @returns units a second since the reading before; undefined if there is none, or it was of another engine */
  read(total: number, nowMs: number): number | undefined {
    const last = this.#last;
    if (last && nowMs - last.atMs < SHORTEST_MS) return this.#perSecond;
    this.#last = { total, atMs: nowMs };
    const isComparable = last !== null && total >= last.total;
    this.#perSecond = isComparable ? ((total - last.total) * 1000) / (nowMs - last.atMs) : undefined;
    return this.#perSecond;
  }
}
