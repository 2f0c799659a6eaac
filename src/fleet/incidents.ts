import type { RefusedWorker } from './rpc.ts';
import type { Incidents, Refusal, UnknownModel } from './view/facts.ts';

/** Models that callers asked for in vain, remembered at a time. */
const MOST_MODELS = 5;

/** What went wrong on the way to the queue. In memory only: if it still goes wrong, it is reported again. */
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
