import { adapterOf, awaitsTurn, freeSlots, usableSlots, type Worker } from '../state/worker.ts';
import { ADAPTER, compareAffinity, modelCost, WANTS_NOTHING, type Wants } from './affinity.ts';
import { MOST_PASSED_OVER, mayBePreferred, shareInUse } from './warmth.ts';

/**
 * Chooses the best worker of those that fit and have a free slot. Awake workers go before all others. Of workers that
 * are not much busier than the others, it is the one at which the job does best, else the least loaded; the first of
 * equals. So an adapter or a beginning of prompts that many ask for is soon at several workers.
 */
export function chooseWorker(
  workers: readonly Worker[],
  fits: (worker: Worker) => boolean,
  wants: Wants = WANTS_NOTHING,
): Worker | null {
  const isAdapter = workers.some((worker) => adapterOf(worker, wants.model) !== null);
  const isAwake = (worker: Worker) => fits(worker) && !awaitsTurn(worker);
  const able = workers.some((worker) => freeSlots(worker) > 0 && isAwake(worker)) ? isAwake : fits;
  const may = isAdapter ? thatRunIt(workers, able, wants.model) : able;
  let least: Worker | null = null;
  for (const worker of workers) {
    if (freeSlots(worker) === 0 || !may(worker)) continue;
    if (least === null || shareInUse(worker) < shareInUse(least)) least = worker;
  }
  return least === null || (wants.extras.prefix === undefined && !isAdapter)
    ? least
    : bestFor(workers, may, wants, least);
}

/**
 * Returns the check for workers that fit and need not wait for an adapter, or for all that fit if none of those has a
 * free slot.
 */
function thatRunIt(
  workers: readonly Worker[],
  fits: (worker: Worker) => boolean,
  model: string | null,
): (worker: Worker) => boolean {
  const isAble = (worker: Worker) => fits(worker) && modelCost(worker, model) < ADAPTER.waits;
  return workers.some((worker) => freeSlots(worker) > 0 && isAble(worker)) ? isAble : fits;
}

function bestFor(
  workers: readonly Worker[],
  may: (worker: Worker) => boolean,
  wants: Wants,
  least: Worker,
): Worker {
  let best = least;
  for (const worker of workers) {
    if (worker === least || freeSlots(worker) === 0 || !may(worker) || !mayBePreferred(worker, least))
      continue;
    const gain = compareAffinity(worker, best, wants);
    if (gain > 0 || (gain === 0 && shareInUse(worker) < shareInUse(best))) best = worker;
  }
  return best;
}

/** The properties of a waiting job that `chooseWaiting` depends on. */
interface Waiting extends Wants {
  passed_over: number;
}

/**
 * Chooses which of the first waiting jobs gets a slot of this worker: the first that does not do better at one of the
 * other workers, so that a new prompt is passed over by none; if all do better elsewhere, the first. The jobs before
 * the chosen one are counted as passed over once more.
 * @param line the first waiting jobs in the order of dispatch, never empty
 */
export function chooseWaiting<J extends Waiting>(
  line: readonly J[],
  worker: Worker,
  rivals: readonly Worker[],
): J {
  const [first] = line;
  for (const [index, job] of line.entries()) {
    if (isPassedOver(job, worker, rivals)) continue;
    for (const passed of line.slice(0, index)) passed.passed_over += 1;
    return job;
  }
  return first!;
}

/** Returns the other workers of the worker's pool that a job may be left to. @param workers all connected workers */
export function rivalsOf(worker: Worker, workers: readonly Worker[]): Worker[] {
  const { config_id } = worker.session;
  return workers.filter(
    (other) =>
      other !== worker &&
      !awaitsTurn(other) &&
      other.session.config_id === config_id &&
      usableSlots(other) > 0,
  );
}

/** Says whether the job is left to another worker: it does better there, and has not been passed over too often. */
export function isPassedOver(job: Waiting, worker: Worker, rivals: readonly Worker[]): boolean {
  return (
    job.passed_over < MOST_PASSED_OVER && rivals.some((rival) => compareAffinity(rival, worker, job) > 0)
  );
}

/** Returns the one that was created first, the first of equals; null where both are null. */
export function olderOf<A extends Created, B extends Created>(one: A | null, other: B | null): A | B | null {
  if (one === null || other === null) return one ?? other;
  return one.created_at <= other.created_at ? one : other;
}

interface Created {
  /** The time of creation, epoch ms. */
  created_at: number;
}
