import { describe, expect, it } from 'vitest';
import type { UsageSum, UsageWanted } from '../../../src/queue/rpc.ts';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const USAGE = {
  prompt_tokens: 10,
  completion_tokens: 5,
  cached_tokens: 4,
  reasoning_tokens: 2,
  model: 'tiny',
};

function worker(queue: QueueHarness, id = 'w', more: object = {}): FakeConnection {
  return queue.worker(id, { capacity: 4, ...more });
}

/** Everything that is counted, summed up by what is asked for. */
function usage(
  queue: QueueHarness,
  groupBy: UsageWanted['groupBy'] = [],
  more: Partial<UsageWanted> = {},
): UsageSum[] {
  const to = queue.nowMs / 1000 + 365 * 86_400;
  return queue.queue.do('usage', { from: 0, to, width: 10 ** 10, groupBy, filter: {}, ...more });
}

const told = (job: { job_id: string; fence_token: number }, more: object = {}) => ({
  type: 'job_result',
  job_id: job.job_id,
  fence_token: job.fence_token,
  result: {},
  usage: USAGE,
  ...more,
});
describe('the table of usage', () => {
  it('keeps hours for two weeks and days for longer, and sums them up alike', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    const use = () => {
      queue.job();
      queue.say(connection, told(connection.lastJob()));
    };
    use();
    queue.advance(3600);
    use();
    const hour = { width: 3600 };
    const start = Date.UTC(2026, 0, 1) / 1000;
    expect(usage(queue, [], hour).map((sum) => [sum.start, sum.input])).toEqual([
      [start, 10],
      [start + 3600, 10],
    ]);
    queue.advance(15 * 86_400);
    use();
    const day = { width: 86_400 };
    expect(usage(queue, [], day).map((sum) => [sum.start, sum.input])).toEqual([
      [start, 20],
      [start + 15 * 86_400, 10],
    ]);
  });

  it('filters and bounds by time', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    for (const tenant of ['one', 'two']) {
      queue.job({ tenant });
      queue.say(connection, told(connection.lastJob()));
    }
    expect(usage(queue, [], { filter: { tenant: ['two'] } })).toMatchObject([{ requests: 1 }]);
    expect(usage(queue, [], { to: Date.UTC(2026, 0, 1) / 1000 })).toEqual([]);
  });
});

describe('two attempts at a request that both began before a restart', () => {
  it('are counted as one', () => {
    const queue = new QueueHarness();
    const before = worker(queue, 'first');
    queue.request({ job_id: 'a' });
    const older = before.lastJob();
    const newer = { ...older, fence_token: older.fence_token + 1 };
    queue.restart();
    for (const [id, job] of [
      ['second', newer],
      ['first', older],
    ] as const) {
      const back = worker(queue, id, { jobs: [{ job_id: 'a', fence_token: job.fence_token }] });
      queue.say(back, told(job));
    }
    queue.advance(1);
    expect(usage(queue)).toMatchObject([{ succeeded: 1, input: 10, wasted: 15 }]);
  });
});
