import type { WaitingRequest } from '../../queue/rpc.ts';
import { parseRequestTimeouts, type RequestTimeouts } from '../../settings/queue-settings.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import type { RequestHead } from '../request-head.ts';

/** A caller waits this many ms for a slot of a worker that exists, unless X-Queue-Wait says otherwise. */
const WAIT_FOR_SLOT_MS = 600_000;

/** The longest X-Queue-Wait, X-Queue-Deadline and X-Request-Timeout, seconds. */
const LONGEST_WAIT_SECONDS = 3600;

/** A request's time limits, ms. */
export interface GivenLimits {
  wait: number | undefined;
  deadline: number | undefined;
  limit: number | undefined;
}

/** Returns the limits that a request's headers and the queue's limits by route give it. @throws HttpError 400 */
export function limitsOf({ headers }: RequestHead, pathname: string, env: Env): GivenLimits {
  const limits = [secondsIn(headers, 'X-Request-Timeout'), timeoutsOf(env).of(pathname)];
  const given = limits.filter((limit) => limit !== undefined);
  return {
    wait: secondsIn(headers, 'X-Queue-Wait'),
    deadline: secondsIn(headers, 'X-Queue-Deadline'),
    limit: given.length === 0 ? undefined : Math.min(...given),
  };
}

/** The time limits by route, parsed once for each text that describes them. */
let timeouts: { text: string; read: RequestTimeouts } | null = null;

function timeoutsOf({ REQUEST_TIMEOUTS: text = '' }: Env): RequestTimeouts {
  if (timeouts?.text !== text) timeouts = { text, read: parseRequestTimeouts(text) };
  return timeouts.read;
}

/** Returns the time limits in the queue's form. */
export function waitsOf({
  wait,
  deadline,
  limit,
}: GivenLimits): Pick<
  WaitingRequest,
  'wait_for_worker_ms' | 'waits_for_start' | 'wait_for_slot_ms' | 'deadline_ms' | 'limit_ms'
> {
  return {
    wait_for_worker_ms: wait ?? 0,
    waits_for_start: wait === undefined,
    wait_for_slot_ms: wait ?? WAIT_FOR_SLOT_MS,
    ...(deadline === undefined ? {} : { deadline_ms: deadline }),
    ...(limit === undefined ? {} : { limit_ms: limit }),
  };
}

/** @returns the header's time in ms */
function secondsIn(
  headers: RequestHead['headers'],
  name: 'X-Queue-Wait' | 'X-Queue-Deadline' | 'X-Request-Timeout',
): number | undefined {
  const header = headers.get(name);
  if (header === null) return undefined;
  const seconds = header.trim() === '' ? Number.NaN : Number(header);
  if (seconds >= 0 && seconds <= LONGEST_WAIT_SECONDS) return seconds * 1000;
  throw new HttpError(400, `${name}: expected seconds from 0 to ${LONGEST_WAIT_SECONDS}.`, 'invalid_wait');
}
