import type { Log } from './log.ts';

/** The outage of something that may fail for a while, logged once when it begins and once when it ends. */
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

  /** The newest problem, for people; null while there is none. */
  get text(): string | null {
    return this.#problem === null ? null : `${this.#lines.begins}: ${this.#problem}`;
  }

  /** Notes the present state. @param problem null: everything works */
  report(problem: string | null): void {
    const was = this.#problem;
    this.#problem = problem;
    if (problem !== null && was === null) this.#log.warn({ problem }, this.#lines.begins);
    if (problem === null && was !== null) this.#log.info({}, this.#lines.ends);
  }
}
