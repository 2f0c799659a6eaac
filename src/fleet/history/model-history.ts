import { perTokenMs, type RequestRecord } from '../../protocol/index.ts';
import { addBuckets, addCounts, type Buckets } from './chunk.ts';
import { HISTOGRAMS, type HistogramName } from './histograms.ts';
import type { History } from './history.ts';

/** Counts what happened to the requests of each model, by their records: one that stands for four counts as four. */
export class ModelHistory {
  readonly #history: History;

  constructor(history: History) {
    this.#history = history;
  }

  /** Adds requests to the history. @param known whether a worker serves the model: callers may ask for any name */
  count(records: readonly RequestRecord[], known: (model: string) => boolean, at: number): void {
    for (const [id, ofModel] of Map.groupBy(records, ({ model }) => model)) {
      if (id === '' || !known(id)) continue;
      const chunk = this.#history.write({ kind: 'model', id }, at);
      for (const record of ofModel) {
        addCounts(chunk, at, countsOf(record));
        addBuckets(chunk, at, bucketsOf(record));
      }
    }
  }
}

function countsOf({ outcome, tokens_in, tokens_out, cached_tokens, stands_for }: RequestRecord) {
  return {
    [outcome]: stands_for,
    tokens_in: (tokens_in ?? 0) * stands_for,
    tokens_out: (tokens_out ?? 0) * stands_for,
    tokens_cached: (cached_tokens ?? 0) * stands_for,
  };
}

function bucketsOf(record: RequestRecord): Record<string, Buckets> {
  const { worker_id, outcome, wait_ms, first_token_ms, total_ms, stands_for } = record;
  const one = (name: HistogramName, ms: number | null) => ({
    [name]: ms === null ? {} : { [bucketOf(HISTOGRAMS[name], ms)]: stands_for },
  });
  const succeeded = outcome === 'succeeded';
  return {
    ...one('wait', worker_id === null ? null : wait_ms),
    ...one('first_token', succeeded ? first_token_ms : null),
    ...one('per_token', succeeded ? perTokenMs(record) : null),
    ...one('duration', succeeded ? total_ms : null),
  };
}

function bucketOf(bounds: readonly number[], ms: number): number {
  const bucket = bounds.findIndex((bound) => ms / 1000 <= bound);
  return bucket === -1 ? bounds.length : bucket;
}
