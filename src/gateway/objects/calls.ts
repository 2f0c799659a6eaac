import type { BatchesRpc } from '../../batches/rpc.ts';
import type { FileRpc } from '../../files/rpc.ts';
import type { AuditCalls, FleetRpc, TokenCalls } from '../../fleet/rpc.ts';
import { fieldsOf } from '../../protocol/index.ts';
import type { QueueRpc } from '../../queue/rpc.ts';
import type { SchedulerRpc } from '../../scheduler/rpc.ts';
import { type Env, objectNamed } from '../env.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { storageFault } from './storage-faults.ts';

/**
 * One call of a queue object. An object that restarts in the middle is asked once more; every call can be
 * made twice, since jobs carry their ids.
 * @throws HttpError 503 when the second try meets a restart too, or the queue's database cannot be used
 */
export function callQueue<T>(
  env: Env,
  queueId: string,
  call: (queue: QueueObjectStub) => Promise<T>,
): Promise<T> {
  return onceMore(queueId, () => call(objectNamed(env.QUEUE, queueId)));
}

export type QueueObjectStub = ReturnType<typeof objectNamed<QueueRpc>>;

/** The same for the fleet object of a queue. */
export function callFleet<T>(
  env: Pick<Env, 'FLEET'>,
  queueId: string,
  call: (fleet: FleetRpc & TokenCalls & AuditCalls & SchedulerRpc) => Promise<T>,
): Promise<T> {
  return onceMore(queueId, () => call(objectNamed(env.FLEET, queueId)));
}

/** The same for the object that knows the files and batches of a queue. */
export function callBatches<T>(
  env: Env,
  queueId: string,
  call: (batches: BatchesRpc) => Promise<T>,
): Promise<T> {
  return onceMore(queueId, () => call(objectNamed(env.BATCHES, queueId)));
}

/** The same for the object that holds the bytes of a queue's files. */
export function callFiles<T>(env: Env, queueId: string, call: (files: FileRpc) => Promise<T>): Promise<T> {
  return onceMore(queueId, () => call(objectNamed(env.FILE, queueId)));
}

/** The content of a file: 404 where there is none, 503 where the bucket does not give it. */
export function fetchFile(env: Env, queueId: string, fileId: string): Promise<Response> {
  return onceMore(queueId, () => objectNamed(env.FILE, queueId).fetch(`https://files/${fileId}`));
}

async function onceMore<T>(queueId: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const fault = storageFault(error, queueId);
    if (fault || !isRestart(error)) throw fault ?? told(error);
  }
  try {
    return await call();
  } catch (error) {
    const fault = storageFault(error, queueId);
    if (fault || !isRestart(error)) throw fault ?? told(error);
    throw new HttpError(
      503,
      'The queue is restarting; try again in a moment.',
      'queue_restarting',
      retryAfter(1),
    );
  }
}

/** The answer to callers for an error of the queue. */
function told(error: unknown): unknown {
  if (fieldsOf(error).overloaded !== true) return error;
  const busy = 'The queue has too much to do; try again in a few seconds.';
  return new HttpError(503, busy, 'queue_overloaded', retryAfter(5));
}

/**
 * Whether the object ended, so that the next call finds a new one. The runtime marks errors that come from that and not
 * from the object's code, and those of an object with too much to do, which one more call would only burden. Where it
 * marks nothing its words decide.
 */
function isRestart(error: unknown): boolean {
  const { retryable, durableObjectReset, overloaded, message } = fieldsOf(error);
  if (overloaded === true) return false;
  if (retryable !== undefined || durableObjectReset !== undefined)
    return retryable === true || durableObjectReset === true;
  return typeof message === 'string' && /connection (was )?lost|object .*reset/i.test(message);
}
