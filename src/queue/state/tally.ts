import type { JobState } from '../../protocol/index.ts';

/** How jobs of a config ended since the object started. */
export interface Ended {
  completed: number;
  /** Failed, or not done by their deadline. */
  failed: number;
  /** Of all that ended, those that needed more than one attempt. */
  retried: number;
}

/** Anybody may name a config: beyond this many the one that has been silent longest is forgotten. */
const MOST_CONFIGS = 1000;

const NONE: Ended = { completed: 0, failed: 0, retried: 0 };

/** Counts ends by config, in memory alone. */
export class Tally {
  readonly #ended = new Map<string, Ended>();

  /** @param attempts that were charged */
  ended(configId: string, state: JobState, attempts: number): void {
    const { completed, failed, retried } = this.of(configId);
    const charged = state === 'succeeded' ? attempts : attempts - 1;
    this.#ended.delete(configId);
    this.#ended.set(configId, {
      completed: completed + (state === 'succeeded' ? 1 : 0),
      failed: failed + (state === 'failed' || state === 'expired' ? 1 : 0),
      retried: retried + (charged > 0 ? 1 : 0),
    });
    if (this.#ended.size <= MOST_CONFIGS) return;
    const [oldest] = this.#ended.keys();
    this.#ended.delete(oldest!);
  }

  of(configId: string): Ended {
    return this.#ended.get(configId) ?? NONE;
  }
}
