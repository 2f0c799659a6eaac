import { freeSlots, type Worker } from '../state/worker.ts';

/** How little a worker suits: of two the one with the lower score is chosen, by the first scorer that tells them apart. */
export type Scorer = (worker: Worker) => number;

/** Share of its slots in use: jobs are spread over the workers. */
const shareInUse: Scorer = ({ running, session }) => running.size / session.capacity;

const SCORERS: readonly Scorer[] = [shareInUse];

/** The best of the workers that fit and have a free slot; the first of equals. */
export function chooseWorker(
  workers: Iterable<Worker>,
  fits: (worker: Worker) => boolean,
  scorers: readonly Scorer[] = SCORERS,
): Worker | null {
  let best: Worker | null = null;
  for (const worker of workers) {
    if (freeSlots(worker) === 0 || !fits(worker)) continue;
    if (best === null || isBetter(worker, best, scorers)) best = worker;
  }
  return best;
}

function isBetter(worker: Worker, best: Worker, scorers: readonly Scorer[]): boolean {
  for (const score of scorers) {
    const difference = score(worker) - score(best);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

/** What the order of dispatch looks at. */
interface Ordered {
  priority: number;
  /** Epoch ms */
  created_at: number;
}

/** Which of two goes first: higher priority, then older; the first where they are equal. */
export function chooseJob<A extends Ordered, B extends Ordered>(
  one: A | null,
  other: B | null,
): A | B | null {
  if (one === null || other === null) return one ?? other;
  if (one.priority !== other.priority) return one.priority > other.priority ? one : other;
  return one.created_at <= other.created_at ? one : other;
}
