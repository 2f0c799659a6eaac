import type { RefusedWorker } from './rpc.ts';
import type { Incidents, Refusal, UnknownModel } from './view/facts.ts';

/** The most unknown models remembered at a time that callers asked for. */
const MOST_MODELS = 5;

/** Problems on the way to the queue. They are in memory only: a problem that persists is reported again. */
export class RecentIncidents {
  #refusal: Refusal | null = null;
  readonly #models = new Map<string, UnknownModel>();

  refused({ why, advice }: RefusedWorker, at: number): void {
    this.#refusal = { at, why, advice };
  }

  unknownModel(model: string, models: string, at: number): void {
    this.#models.delete(model);
    this.#models.set(model, { at, model, models });
    const [oldest] = this.#models.keys();
    if (this.#models.size > MOST_MODELS && oldest !== undefined) this.#models.delete(oldest);
  }

  all(): Incidents {
    return { refusal: this.#refusal, unknown_models: [...this.#models.values()] };
  }
}
