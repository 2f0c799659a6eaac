import type { UsageSum, UsageWanted } from '../../src/queue/rpc.ts';
import { failure, result } from './job-frames.ts';
import type { FakeConnection, QueueHarness } from './queue-harness.ts';

/** The bench that tests of usage share: a worker, frames that report usage, and the queue's counts. */

export const USAGE = {
  prompt_tokens: 10,
  completion_tokens: 5,
  cached_tokens: 4,
  reasoning_tokens: 2,
  model: 'tiny',
};

export function worker(queue: QueueHarness, id = 'w', more: object = {}): FakeConnection {
  return queue.worker(id, { capacity: 4, ...more });
}

/** Everything that is counted, summed up by what is asked for. */
export function usage(
  queue: QueueHarness,
  groupBy: UsageWanted['groupBy'] = [],
  more: Partial<UsageWanted> = {},
): UsageSum[] {
  const to = queue.nowMs / 1000 + 365 * 86_400;
  return queue.queue.do('usage', { from: 0, to, width: 10 ** 10, groupBy, filter: {}, ...more });
}

type Job = Parameters<typeof result>[0];

export const told = (job: Job, more: object = {}) => ({ ...result(job), usage: USAGE, ...more });
export const failed = (job: Job, more: object = {}) => failure(job, { usage: USAGE, ...more });
