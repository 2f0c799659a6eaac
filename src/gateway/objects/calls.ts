import type { BatchesStub, FilesStub, FleetStub, QueueStub } from '../../asking/objects.ts';
import { isRestart, onceMore } from '../../asking/once-more.ts';
import { fieldsOf } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { storageFault } from './storage-faults.ts';

type Asking = Pick<Env, 'objects'>;

/**
 * One call of a queue object. An object that restarts in the middle is asked once more.
 * @throws HttpError 503 when the second try meets a restart too, or the queue's database cannot be used
 */
export function callQueue<T>(
  { objects }: Asking,
  queueId: string,
  call: (queue: QueueStub) => Promise<T>,
): Promise<T> {
  return answerOf(queueId, () => call(objects.queue(queueId)));
}

/** The same for the fleet object of a queue. */
export function callFleet<T>(
  { objects }: Asking,
  queueId: string,
  call: (fleet: FleetStub) => Promise<T>,
): Promise<T> {
  return answerOf(queueId, () => call(objects.fleet(queueId)));
}

/** The same for the object that knows the files and batches of a queue. */
export function callBatches<T>(
  { objects }: Asking,
  queueId: string,
  call: (batches: BatchesStub) => Promise<T>,
): Promise<T> {
  return answerOf(queueId, () => call(objects.batches(queueId)));
}

/** The same for the object that holds the bytes of a queue's files. */
export function callFiles<T>(
  { objects }: Asking,
  queueId: string,
  call: (files: FilesStub) => Promise<T>,
): Promise<T> {
  return answerOf(queueId, () => call(objects.files(queueId)));
}

async function answerOf<T>(queueId: string, call: () => Promise<T>): Promise<T> {
  try {
    return await onceMore(call);
  } catch (error) {
    throw toldFault(error, queueId);
  }
}

/** The answer to callers for an error of an object. */
export function toldFault(error: unknown, queueId: string): unknown {
  const fault = storageFault(error, queueId);
  if (fault) return fault;
  if (isRestart(error)) {
    const message = 'The queue is restarting; try again in a moment.';
    return new HttpError(503, message, 'queue_restarting', retryAfter(1));
  }
  if (fieldsOf(error).overloaded !== true) return error;
  const busy = 'The queue has too much to do; try again in a few seconds.';
  return new HttpError(503, busy, 'queue_overloaded', retryAfter(5));
}
