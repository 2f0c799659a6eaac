import type { Prefix } from '../rpc.ts';
import { freeSlots, type Worker } from '../state/worker.ts';
import { mayBePreferred, shareInUse, warmth } from './warmth.ts';

/**
 * The best of the workers that fit and have a free slot: the warmest of those that are not much busier than the others,
 * else the least loaded; the first of equals.
 * @param prefix how the prompt begins; null: nothing is known of it
 */
export function chooseWorker(
  workers: readonly Worker[],
  fits: (worker: Worker) => boolean,
  prefix: Prefix | null = null,
): Worker | null {
  let least: Worker | null = null;
  for (const worker of workers) {
    if (freeSlots(worker) === 0 || !fits(worker)) continue;
    if (least === null || shareInUse(worker) < shareInUse(least)) least = worker;
  }
  return least === null || prefix === null ? least : warmest(workers, fits, prefix, least);
}

function warmest(
  workers: readonly Worker[],
  fits: (worker: Worker) => boolean,
  prefix: Prefix,
  least: Worker,
): Worker {
  let [best, most] = [least, warmth(least, prefix)];
  for (const worker of workers) {
    if (worker === least || freeSlots(worker) === 0 || !fits(worker) || !mayBePreferred(worker, least))
      continue;
    const own = warmth(worker, prefix);
    if (own > most || (own > 0 && own === most && shareInUse(worker) < shareInUse(best)))
      [best, most] = [worker, own];
  }
  return best;
}

/** The one that was created first; of equals the first. Null where both are. */
export function olderOf<A extends Created, B extends Created>(one: A | null, other: B | null): A | B | null {
  if (one === null || other === null) return one ?? other;
  return one.created_at <= other.created_at ? one : other;
}

interface Created {
  /** Epoch ms */
  created_at: number;
}
