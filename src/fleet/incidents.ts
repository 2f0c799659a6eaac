import type { RefusedWorker } from './rpc.ts';

/** Problems that the gateway saw and no object stores. */
export interface Incidents {
  /** The newest attempt of a worker to connect that was refused. */
  refusal: Refusal | null;
  /** Models that callers asked for and no worker serves, newest last. */
  unknown_models: readonly UnknownModel[];
}

interface Refusal {
  at: number;
  /** The reason for the refusal, a clause: "its token is not known here". */
  why: string;
  advice: string;
}

interface UnknownModel {
  at: number;
  model: string;
  /** The known models, as an error lists them; empty: none. */
  models: string;
}

/** The most unknown models, of those that callers asked for, that are remembered at a time. */
const MOST_MODELS = 5;

/** Stores problems on the way to the queue, in memory only: a problem that persists is reported again. */
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

  /** Forgets the unknown models that a worker serves by now. */
  served(isServed: (model: string) => boolean): void {
    for (const model of this.#models.keys()) if (isServed(model)) this.#models.delete(model);
  }

  all(): Incidents {
    return { refusal: this.#refusal, unknown_models: [...this.#models.values()] };
  }
}
