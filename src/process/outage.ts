import type { Log } from './log.ts';

/** Something that may fail for a while: logged once when it starts to fail and once when it works again. */
export class Outage {
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #lines: { begins: string; ends: string };
  #problem: string | null = null;

  constructor(log: Pick<Log, 'info' | 'warn'>, lines: { begins: string; ends: string }) {
    this.#log = log;
    this.#lines = lines;
  }

  get isOn(): boolean {
    return this.#problem !== null;
  }

  /** The newest problem, for people; null while it works. */
  get text(): string | null {
    return this.#problem === null ? null : `${this.#lines.begins}: ${this.#problem}`;
  }

  /** @param problem null: it works */
  report(problem: string | null): void {
    const was = this.#problem;
    this.#problem = problem;
    if (problem !== null && was === null) this.#log.warn({ problem }, this.#lines.begins);
    if (problem === null && was !== null) this.#log.info({}, this.#lines.ends);
  }
}
