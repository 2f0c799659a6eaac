/**
 * The number of events of a stream in each batch, by RunPod's three settings with their names and meanings
 * (`DEFAULT_BATCH_SIZE`, `DEFAULT_MIN_BATCH_SIZE`, `DEFAULT_BATCH_SIZE_GROWTH_FACTOR`, and the same settings of one
 * request).
 */
export interface Batching {
  /** The most events in a batch. */
  maxSize: number;
  /** The number of events in the first batch. */
  minSize: number;
  /**
   * Each batch has this many times the events of the previous one, up to `maxSize`. At 1 or less all have `maxSize`.
   */
  growthFactor: number;
}

/** The batching of RunPod's worker without settings: 1, 3, 9, 27, 50, 50, … */
export const RUNPOD_BATCHING: Batching = { maxSize: 50, minSize: 1, growthFactor: 3 };

/** The fields by which a request sets its own batches; `batch_size` is the older name of `max_batch_size`. */
export interface BatchingFields {
  max_batch_size?: number | null | undefined;
  batch_size?: number | null | undefined;
  min_batch_size?: number | null | undefined;
  batch_size_growth_factor?: number | null | undefined;
}

/** Returns a request's own batching. Like RunPod's worker it reads 0 as "not given". */
export function batchingOf(fields: BatchingFields, otherwise: Batching): Batching {
  return {
    maxSize: fields.max_batch_size || fields.batch_size || otherwise.maxSize,
    minSize: fields.min_batch_size || otherwise.minSize,
    growthFactor: fields.batch_size_growth_factor || otherwise.growthFactor,
  };
}

/**
 * Counts the events of one stream into batches. The caller keeps the events:
 *
 *     held.push(event);
 *     if (batch.add()) send(held.splice(0));
 *
 * and sends whatever is still held at the end.
 */
export class BatchCounter {
  readonly #batching: Batching;
  readonly #grows: boolean;
  #size: number;
  #held = 0;

  constructor(batching: Batching) {
    const { maxSize, minSize, growthFactor } = batching;
    this.#batching = batching;
    this.#grows = growthFactor > 1 && minSize >= 1 && minSize < maxSize;
    this.#size = this.#grows ? minSize : maxSize;
  }

  /** Counts an event. @returns true if it fills the batch: the caller sends the batch, and the next one begins */
  add(): boolean {
    this.#held += 1;
    if (this.#held < this.#size) return false;
    this.#held = 0;
    if (this.#grows) this.#size = Math.min(this.#size * this.#batching.growthFactor, this.#batching.maxSize);
    return true;
  }
}
