import { matchesPattern } from '../../protocol/index.ts';
import { DEFAULT_QUEUE, QUEUE_SETTINGS } from '../../settings/queue-settings.ts';
import { addressOf } from '../address.ts';
import type { Env, RequestHead } from '../env.ts';
import { HttpError } from '../errors.ts';

/**
 * Returns the queue that a request is for: header `X-Queue-Id`, else query `queue_id`, else the default. Each id is an
 * object with a database of its own, which the first call of it makes, so only ids of `QUEUE_IDS` are allowed.
 * @param named the id in the body; goes before all others
 * @throws HttpError 400, or 404 for a queue that may not exist
 */
export function queueIdOf(env: Pick<Env, 'QUEUE_IDS'>, request: RequestHead, named?: string): string {
  const asked = () => request.headers.get('x-queue-id') ?? addressOf(request).searchParams.get('queue_id');
  const id = named ?? asked() ?? DEFAULT_QUEUE;
  if (id === '' || id.length > 256) {
    throw new HttpError(400, 'The queue id must have 1 to 256 characters.', 'invalid_queue_id');
  }
  if (mayBeQueue(env, id)) return id;
  throw new HttpError(
    404,
    `There is no queue ${JSON.stringify(id)} here. Name another with X-Queue-Id, or let this one exist: add its id, or a pattern like "team-*", to the variable QUEUE_IDS of the queue's process.`,
    'queue_not_found',
  );
}

/** Returns whether a queue of this id exists or may be made. */
export function mayBeQueue(env: Pick<Env, 'QUEUE_IDS'>, id: string): boolean {
  return allowedQueues(env).some((pattern) => matchesPattern(pattern, id));
}

function allowedQueues(env: Pick<Env, 'QUEUE_IDS'>): string[] {
  return (env.QUEUE_IDS || QUEUE_SETTINGS.queue_ids.default).split(',').map((pattern) => pattern.trim());
}

/** Returns the queues that exist before anybody names them. */
export function namedQueues(env: Pick<Env, 'QUEUE_IDS'>): string[] {
  return [...new Set([DEFAULT_QUEUE, ...allowedQueues(env).filter((id) => !id.includes('*'))])];
}

/**
 * Returns whether a queue exists before anybody names it: it is the default one, or QUEUE_IDS names it without a
 * pattern.
 */
export function isNamedQueue(env: Env, queueId: string): boolean {
  return queueId === DEFAULT_QUEUE || allowedQueues(env).includes(queueId);
}
