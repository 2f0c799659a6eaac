import { describe, expect, it } from 'vitest';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

/** The job's `attempts`, by its view and by the list, which must agree. */
function attempts(queue: QueueHarness, id: string): number {
  const filter = {
    state: null,
    config_id: null,
    job_type: null,
    tenant: null,
    worker_id: null,
    error_code: null,
  };
  const place = { id_prefix: id, since: null, until: null, before: null, limit: 1, viewer: null };
  const [listed] = queue.queue.read('list', { filter, ...place }).jobs;
  const viewed = queue.queue.read('get', id, null);
  expect(listed?.attempts).toBe(viewed?.attempts);
  return viewed!.attempts;
}

/** Says of the worker's newest job how it went. */
function say(queue: QueueHarness, worker: FakeConnection, frame: object): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { ...frame, job_id, fence_token });
}

const result = { type: 'job_result', result: {} };
const failure = { type: 'job_error', error: 'busy', retryable: true };

describe('the attempts of a job', () => {
  it('are those that failed and the one that runs or succeeded, everywhere the job is told of', () => {
    const queue = new QueueHarness({ webhook_hosts: 'a.test', webhook_secret: 'whsec_x' });
    const id = queue.job({ webhook: 'https://a.test/' });
    expect(attempts(queue, id)).toBe(0);
    const worker = queue.worker('w');
    expect(attempts(queue, id)).toBe(1);
    say(queue, worker, failure);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['pending', 1]);
    queue.advance(2);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['leased', 2]);
    say(queue, worker, result);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['succeeded', 2]);
    expect(JSON.parse(queue.queue.read('webhookBody', id)!)).toMatchObject({ data: { attempts: 2 } });
  });

  it('do not count one that was given back uncharged', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    say(queue, worker, { type: 'job_release', reason: 'overloaded' });
    expect([queue.state(id), attempts(queue, id)]).toEqual(['pending', 0]);
    queue.advance(2);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['leased', 1]);
  });

  it('count one whose lease ran out once, though it succeeds after that', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.advance(33);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['pending', 1]);
    say(queue, worker, result);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['succeeded', 1]);
  });

  it('count one that was cut short by a cancellation or the deadline, and none of a job that waited', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 2 });
    const ran = [queue.job(), queue.job({ deadline_seconds: 5 })];
    const elsewhere = { config_id: 'other' };
    const waited = [queue.job(elsewhere), queue.job({ ...elsewhere, deadline_seconds: 5 })];
    queue.advance(6);
    for (const id of [ran[0]!, waited[0]!]) queue.queue.do('cancel', id, 'cancelled', null);
    expect(ran.map((id) => [queue.state(id), attempts(queue, id)])).toEqual([
      ['cancelled', 1],
      ['expired', 1],
    ]);
    expect(waited.map((id) => [queue.state(id), attempts(queue, id)])).toEqual([
      ['cancelled', 0],
      ['expired', 0],
    ]);
  });

  it('begin at none when a failed job is tried again', () => {
    const queue = new QueueHarness();
    const id = queue.job({ max_attempts: 1 });
    const worker = queue.worker('w', { capacity: 0 });
    queue.say(worker, { type: 'register', worker_id: 'w', config_id: 'cfg', capacity: 1, protocol: 1 });
    say(queue, worker, failure);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['failed', 1]);
    queue.queue.do('retry', id, null);
    expect([queue.state(id), attempts(queue, id)]).toEqual(['leased', 1]);
  });
});
