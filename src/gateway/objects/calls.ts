import type { BatchesStub, FilesStub, FleetStub, QueueStub } from '../../asking/objects.ts';
import { isRestart, onceMore } from '../../asking/once-more.ts';
import { fieldsOf } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { storageFault } from './storage-faults.ts';

type Asking = Pick<Env, 'objects'>;

/**
 * Makes one call of a queue object. If the object restarts in the middle, it is called once more.
 * @throws HttpError 503 when the second call meets a restart too, or the queue's database cannot be used
 */
export function callQueue<T>(
  { objects }: Asking,
  queueId: string,
  call: (queue: QueueStub) => Promise<T>,
): Promise<T> {
  return answerOf(queueId, () => call(objects.queue(queueId)));
}

/** Makes one call of a queue's fleet object, as `callQueue` does. */
export function callFleet<T>(
  { objects }: Asking,
  queueId: string,
  call: (fleet: FleetStub) => Promise<T>,
): Promise<T> {
  return answerOf(queueId, () => call(objects.fleet(queueId)));
}

/** Makes one call of the object that knows the files and batches of a queue, as `callQueue` does. */
export function callBatches<T>(
  { objects }: Asking,
  queueId: string,
  call: (batches: BatchesStub) => Promise<T>,
): Promise<T> {
  return answerOf(queueId, () => call(objects.batches(queueId)));
}

/** Makes one call of the object that holds the bytes of a queue's files, as `callQueue` does. */
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

/** Returns the error that callers get for an error of an object. */
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
