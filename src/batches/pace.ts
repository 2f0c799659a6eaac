/** The time for which done lines count towards the pace, ms; in steps, so that little is stored. */
const REMEMBERED_MS = 300_000;
const STEP_MS = 10_000;
/** The least time that says anything about the pace, ms. */
const LEAST_MS = 5000;

/** Measures how fast the lines of each pool are done. */
export class Pace {
  readonly #steps = new Map<string, { at: number; lines: number }[]>();

  /** Counts lines of a pool that are done. @param now epoch ms */
  done(configId: string, lines: number, now: number): void {
    const steps = this.#steps.get(configId) ?? [];
    const newest = steps.at(-1);
    if (newest !== undefined && now - newest.at < STEP_MS) newest.lines += lines;
    else steps.push({ at: now, lines });
    this.#steps.set(
      configId,
      steps.filter(({ at }) => at > now - REMEMBERED_MS),
    );
  }

  /** Returns how long so many lines of a pool take, ms; 0 if nothing is known. */
  timeFor(configId: string, lines: number, now: number): number {
    const steps = (this.#steps.get(configId) ?? []).filter(({ at }) => at > now - REMEMBERED_MS);
    const elapsed = now - (steps[0]?.at ?? now);
    const done = steps.reduce((sum, step) => sum + step.lines, 0);
    return elapsed < LEAST_MS ? 0 : (lines * elapsed) / done;
  }

  /** Returns how long so many lines of the fastest pool take, ms; Infinity if nothing is known. */
  leastTimeFor(lines: number, now: number): number {
    const times = [...this.#steps.keys()].map((configId) => this.timeFor(configId, lines, now));
    return Math.min(...times.filter((ms) => ms > 0));
  }
}
