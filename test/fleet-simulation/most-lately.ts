const LATELY_MS = 15 * 60_000;

/** The most jobs that a pool had within the last quarter of an hour. */
export class MostLately {
  readonly #seen = new Map<string, { at: number; jobs: number }[]>();

  note(id: string, jobs: number, now: number): void {
    const before = (this.#seen.get(id) ?? []).filter((one) => one.at > now - LATELY_MS && one.jobs > jobs);
    this.#seen.set(id, [...before, { at: now, jobs }]);
  }

  most(id: string): number {
    return this.#seen.get(id)?.[0]?.jobs ?? 0;
  }
}
