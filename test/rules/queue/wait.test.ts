import { describe, expect, it } from 'vitest';
import { result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('waiting for a job', () => {
  it('answers when it settles, and with what there is when the time is over', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [first, second] = [queue.job(), queue.job()];
    const heard: unknown[] = [];
    queue.queue.wait('wait', first, 60_000, null, (view) => heard.push(view?.state));
    queue.queue.wait('wait', second, 3000, null, (view) => heard.push(view?.state));
    expect(heard).toEqual([]);
    queue.say(worker, result(worker.lastJob()));
    expect(heard).toEqual(['succeeded']);
    queue.advance(4);
    expect(heard).toEqual(['succeeded', 'leased']);
  });
});
