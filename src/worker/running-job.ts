import type { Job } from '../protocol/index.ts';

/**
 * One attempt at a job, on this worker.
 *
 * - `preparing` → `running` (its request went to the engine), `over`
 * - `running`   → `over`
 * - `over`: finished, handed back or revoked; what its run still brings is thrown away.
 */
export type RunState = 'preparing' | 'running' | 'over';

export class RunningJob {
  readonly job: Job;
  readonly startedAtMs: number;
  readonly #abort = new AbortController();
  #state: RunState = 'preparing';

  constructor(job: Job, startedAtMs: number) {
    this.job = job;
    this.startedAtMs = startedAtMs;
  }

  get state(): RunState {
    return this.#state;
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /** Fires when the attempt is over before its time: the engine's request is closed with it. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  requested(): void {
    if (this.#state === 'preparing') this.#state = 'running';
  }

  /** The attempt came to its own end. */
  finish(): void {
    this.#state = 'over';
  }

  /** Ends the attempt from outside. */
  abort(): void {
    this.#state = 'over';
    this.#abort.abort();
  }
}
