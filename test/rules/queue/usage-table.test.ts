import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';
import { told, usage, worker } from '../../support/usage-bench.ts';

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
