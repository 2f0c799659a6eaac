import { describe, expect, it } from 'vitest';
import { traceText } from '../../../src/commands/trace.ts';
import { result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

type Pushed = { job_id: string; fence_token: number };
const failure = ({ job_id, fence_token }: Pushed) => ({
  type: 'job_error',
  job_id,
  fence_token,
  error: 'it broke',
  code: 'engine_error',
  retryable: true,
});
const release = ({ job_id, fence_token }: Pushed, reason: string) => ({
  type: 'job_release',
  job_id,
  fence_token,
  reason,
});

const steps = (queue: QueueHarness, id: string) => queue.queue.read('ledger', id, null)?.steps ?? [];
const names = (queue: QueueHarness, id: string) => steps(queue, id).map((step) => step.step);
const rows = (queue: QueueHarness) =>
  queue.database.prepare('SELECT count(*) AS n FROM ledger').get() as { n: number };

describe('the ledger of a job', () => {
  it('tells submission, dispatch and end with times, attempt, fence and worker, and stores nothing for it', () => {
    const queue = new QueueHarness();
    const id = queue.job();
    expect(names(queue, id)).toEqual(['submitted']);
    queue.advance(2);
    const worker = queue.worker('w');
    queue.advance(3);
    queue.say(worker, result(worker.lastJob()));
    const { fence_token } = worker.lastJob();
    expect(steps(queue, id)).toEqual([
      {
        at: '2026-01-01T00:00:00.000Z',
        step: 'submitted',
        attempt: 0,
        fence_token: 0,
        worker_id: null,
        detail: null,
      },
      {
        at: '2026-01-01T00:00:02.000Z',
        step: 'dispatched',
        attempt: 1,
        fence_token,
        worker_id: 'w',
        detail: null,
      },
      {
        at: '2026-01-01T00:00:05.000Z',
        step: 'settled',
        attempt: 1,
        fence_token,
        worker_id: 'w',
        detail: 'succeeded',
      },
    ]);
    expect(rows(queue).n).toBe(0);
    queue.say(worker, result(worker.lastJob()));
    expect(names(queue, id)).toEqual(['submitted', 'dispatched', 'settled', 'acknowledged_again']);
  });

  it('says why a job ran twice: failed, when it was tried again, and the error that ended it', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 2 });
    queue.say(worker, failure(worker.lastJob()));
    queue.advance(5);
    const retried = queue.worker('w2');
    queue.say(worker, { type: 'pause' });
    queue.say(worker, failure(worker.lastJob()));
    expect(steps(queue, id).map(({ step, attempt, detail }) => [step, attempt, detail])).toEqual([
      ['submitted', 0, null],
      ['dispatched', 1, null],
      ['attempt_failed', 1, expect.stringMatching(/^engine_error: it broke; again in \d+ ms$/)],
      ['dispatched', 2, null],
      ['attempt_failed', 2, 'engine_error: it broke; not tried again'],
      ['settled', 2, 'failed: engine_error: it broke'],
    ]);
    expect(retried.frames('job')).toEqual([]);
    const fences = steps(queue, id).map((step) => step.fence_token);
    expect(fences[1]).toBe(fences[2]);
    expect(fences[3]).toBeGreaterThan(fences[2]!);
  });

  it('tells a release and the next dispatch of the same event in their order', () => {
    const queue = new QueueHarness();
    const leaving = queue.worker('leaving');
    const id = queue.job();
    const staying = queue.worker('staying');
    queue.say(leaving, { type: 'drain' });
    queue.say(leaving, release(leaving.lastJob(), 'draining'));
    expect(steps(queue, id).map(({ step, worker_id, detail }) => [step, worker_id, detail])).toEqual([
      ['submitted', null, null],
      ['dispatched', 'leaving', null],
      ['released', 'leaving', 'draining'],
      ['dispatched', 'staying', null],
    ]);
    queue.say(leaving, result(leaving.lastJob()));
    queue.say(staying, result(staying.lastJob()));
    expect(names(queue, id).slice(4)).toEqual(['settled', 'refused_stale']);
  });

  it('tells a lease that ran out and the late settlement that counted all the same', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.say(worker, { type: 'pause' });
    queue.advance(31);
    queue.say(worker, result(worker.lastJob()));
    expect(names(queue, id)).toEqual(['submitted', 'dispatched', 'lease_expired', 'settled']);
    expect(steps(queue, id)[2]?.detail).toMatch(/again in \d+ ms$/);
  });

  it('tells a renewal that came late, and not one in time', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    const renew = { type: 'renew', jobs: [{ job_id: id, fence_token }] };
    queue.advance(24);
    queue.say(worker, renew);
    expect(names(queue, id)).toEqual(['submitted', 'dispatched']);
    queue.advance(28);
    queue.say(worker, renew);
    expect(steps(queue, id).at(-1)).toMatchObject({
      step: 'renewed_late',
      detail: '2.0 s were left of the lease',
    });
  });

  it('tells a lost connection, the return, and what a frame lost with it did to the job', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    queue.drop(worker);
    queue.advance(3);
    const back = queue.worker('w', { jobs: [{ job_id: id, fence_token }] });
    expect(names(queue, id)).toEqual(['submitted', 'dispatched', 'disconnected', 'resumed']);
    queue.drop(back);
    queue.advance(1);
    queue.worker('w');
    expect(steps(queue, id).at(-2)).toMatchObject({
      step: 'returned',
      detail: expect.stringContaining('never received'),
    });
    expect(names(queue, id).at(-1)).toBe('dispatched');
  });

  it('tells the first progress of an attempt, and what ended a job that nobody finished', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('w', 'cfg', 2);
    const [cancelled, expired] = [queue.job(), queue.job({ deadline_seconds: 5 })];
    const [first] = worker.frames('job');
    for (let turn = 0; turn < 2; turn++) {
      queue.say(worker, {
        type: 'job_progress',
        job_id: cancelled,
        fence_token: first?.fence_token,
        status_message: 'processing',
      });
    }
    queue.queue.do('cancel', cancelled, 'cancelled', null);
    queue.advance(6);
    expect(names(queue, cancelled)).toEqual(['submitted', 'dispatched', 'started', 'cancelled']);
    expect(names(queue, expired)).toEqual(['submitted', 'dispatched', 'expired']);
    expect(steps(queue, expired)[2]?.detail).toContain('deadline');
  });

  it('tells when an attempt reached the engine and when its first token came, of failed attempts too', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const told = () =>
      steps(queue, id).map(({ step, attempt, at }) => `${attempt} ${step} ${at.slice(17, 23)}`);
    queue.advance(2);
    queue.say(worker, { ...failure(worker.lastJob()), timing: { started_ms: 250 } });
    queue.advance(1);
    // More than has passed: a worker's clock may run fast.
    queue.advance(1);
    queue.say(worker, { ...result(worker.lastJob()), timing: { started_ms: 500, first_token_ms: 9000 } });
    expect(told()).toEqual([
      '0 submitted 00.000',
      '1 dispatched 00.000',
      '1 started 00.250',
      '1 attempt_failed 02.000',
      '2 dispatched 02.750',
      '2 started 03.250',
      '2 first_token 04.000',
      '2 settled 04.000',
    ]);
  });

  it('is kept in memory for the newest jobs whose callers waited', () => {
    const queue = new QueueHarness();
    const [leaving, staying] = [queue.worker('leaving'), queue.worker('staying')];
    queue.request({ job_id: 'mine' });
    const [busy, other] = leaving.frames('job').length > 0 ? [leaving, staying] : [staying, leaving];
    queue.advance(1);
    queue.say(busy, release(busy.lastJob(), 'draining'));
    queue.say(busy, { type: 'drain' });
    queue.request({ job_id: 'mine' });
    queue.advance(1);
    queue.say(other, { ...result(other.lastJob()), timing: { started_ms: 0, first_token_ms: 700 } });
    expect(
      steps(queue, 'mine').map(({ at, step, attempt, detail }) => [at.slice(17, 22), step, attempt, detail]),
    ).toEqual([
      ['00.00', 'submitted', 0, null],
      ['00.00', 'dispatched', 1, null],
      ['01.00', 'released', 1, 'draining'],
      ['01.00', 'dispatched', 2, null],
      ['01.00', 'started', 2, null],
      ['01.70', 'first_token', 2, null],
      ['02.00', 'settled', 2, 'succeeded'],
    ]);
    queue.request({ job_id: 'unserved', model: 'nobody-serves-this' });
    expect(names(queue, 'unserved')).toEqual(['submitted', 'refused']);
    for (let turn = 0; turn < 1000; turn++) queue.request({ model: 'nobody-serves-this' });
    expect(queue.queue.read('ledger', 'mine', null)).toBeNull();
    expect(rows(queue).n).toBe(0);
  });

  it('stays bounded for a job that is released again and again, its beginning kept', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    for (let turn = 0; turn < 600; turn++) {
      queue.say(worker, release(worker.lastJob(), 'overloaded'));
      queue.advance(1);
    }
    expect(rows(queue).n).toBe(500);
    expect(names(queue, id).slice(0, 4)).toEqual(['submitted', 'dispatched', 'released', 'dispatched']);
    expect(names(queue, id).at(-1)).toBe('dispatched');
    expect(queue.queue.read('ledger', 'nobody', null)).toBeNull();
  });

  it('reads as lines of relative times', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    queue.advance(1.5);
    queue.say(worker, failure(worker.lastJob()));
    expect(traceText(id, steps(queue, id)).split('\n')).toEqual([
      `Job ${id}`,
      '  +    0.000 s  submitted',
      `  +    0.000 s  dispatched          w, attempt 1, fence ${fence_token}`,
      `  +    1.500 s  attempt failed      w, attempt 1, fence ${fence_token}: engine_error: it broke; again in 750 ms`,
      '',
    ]);
  });
});
