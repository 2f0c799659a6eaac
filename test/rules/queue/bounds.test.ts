import { describe, expect, it } from 'vitest';
import { result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const count = (queue: QueueHarness, table: string) =>
  (queue.database.prepare(`SELECT count(*) AS n FROM ${table}`).get() as { n: number }).n;

describe('the depth of the queue', () => {
  it('is bounded for each pool, with a time to come back, and never for a job that is there already', () => {
    const queue = new QueueHarness({ max_pending: 2 });
    queue.submit({ id: 'a' }, { id: 'b' });
    const [third, other, again] = queue.submit({ id: 'c' }, { id: 'd', config_id: 'other' }, { id: 'a' });
    expect(third).toMatchObject({ ok: false, reason: 'queue_full', retry_after_seconds: expect.any(Number) });
    expect(JSON.stringify(third)).toContain('2 jobs of pool');
    expect([other?.ok, again?.ok]).toEqual([true, true]);
  });

  it('is bounded for each tenant over all pools', () => {
    const queue = new QueueHarness({ max_pending: 10, tenant_share: 0.25 });
    queue.submit({ tenant: 'ann' }, { tenant: 'ann', config_id: 'other' });
    const [ann, bob, nobody] = queue.submit({ tenant: 'ann' }, { tenant: 'bob' }, {});
    expect(ann).toMatchObject({ reason: 'queue_full', message: expect.stringContaining('"ann"') });
    expect([bob?.ok, nobody?.ok]).toEqual([true, true]);
  });

  it('counts no job that found a slot, in the same submission either', () => {
    const queue = new QueueHarness({ max_pending: 2 });
    queue.worker('w', { capacity: 3 });
    const answers = queue.submit({}, {}, {}, {}, {}, {});
    expect(answers.map((answer) => answer.ok)).toEqual([true, true, true, true, true, false]);
  });

  it('makes room again whatever takes a job out, and is the same after a restart', () => {
    const queue = new QueueHarness({ max_pending: 2 });
    const worker = queue.worker('w');
    const ids = [queue.job(), queue.job(), queue.job({ deadline_seconds: 5 })];
    const isFull = () => queue.submit({ id: 'probe', config_id: 'cfg' })[0]?.ok === false;
    expect(isFull()).toBe(true);
    queue.restart();
    expect(isFull()).toBe(true);
    queue.queue.do('cancel', ids[1] as string, 'cancelled', null);
    expect(queue.queue.read('status').pending).toBe(1);
    queue.advance(6);
    expect(queue.state(ids[2] as string)).toBe('expired');
    expect(queue.queue.read('status').pending).toBe(0);
    queue.advance(10);
    expect(queue.queue.read('status').pending).toBe(1);
    expect(worker.frames('job')).toHaveLength(1);
  });

  it('bounds the callers that wait for a slot of one pool, and frees their places', () => {
    const queue = new QueueHarness({ max_waiting: 1 });
    const worker = queue.worker('w');
    queue.worker('other', { config_id: 'other', instance: { models: ['beta'] } });
    const [running, waiting, refused] = [
      queue.request(),
      queue.request({ job_id: 'waiting' }),
      queue.request(),
    ];
    expect([running[0]?.kind, waiting.length]).toEqual(['stream', 0]);
    expect(refused).toMatchObject([{ kind: 'refused', reason: 'queue_full' }]);
    expect(queue.request({ model: 'beta' })).toMatchObject([{ kind: 'stream' }]);
    queue.say(worker, result(worker.lastJob()));
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request()).toEqual([]);
  });

  it('bounds the callers of one tenant that wait, over all pools, and leaves the others their places', () => {
    const queue = new QueueHarness({ max_waiting: 3, tenant_share: 0.7 });
    const worker = queue.worker('w');
    queue.worker('other', { config_id: 'other', instance: { models: ['beta'] } });
    queue.submit({}, { config_id: 'other' });
    const [first, second] = [
      queue.request({ tenant: 'ann' }),
      queue.request({ tenant: 'ann', model: 'beta' }),
    ];
    expect([first, second]).toEqual([[], []]);
    expect(queue.request({ tenant: 'ann' })).toMatchObject([
      { reason: 'queue_full', message: expect.stringContaining('"ann"') },
    ]);
    expect([queue.request({ tenant: 'bob' }), queue.request()]).toEqual([[], []]);
    expect(queue.request({ tenant: 'bob' })).toMatchObject([
      { reason: 'queue_full', message: expect.stringContaining('3 requests') },
    ]);
    queue.say(worker, result(worker.lastJob()));
    expect(first).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request({ tenant: 'ann' })).toEqual([]);
  });
});

describe('the bodies of requests that wait', () => {
  const bytes = (size: number) => new TextEncoder().encode('{}'.padEnd(size)) as Uint8Array<ArrayBuffer>;

  it('are bounded in all, and make room when a slot takes one', () => {
    const queue = new QueueHarness({ max_waiting_bytes: 1000 });
    const worker = queue.worker('w');
    queue.submit({});
    const first = queue.request({ payload: bytes(600) });
    expect(first).toEqual([]);
    expect(queue.request({ payload: bytes(401) })).toMatchObject([
      { reason: 'queue_full', message: expect.stringContaining('1000 bytes'), retry_after_seconds: 5 },
    ]);
    expect(queue.request({ payload: bytes(400) })).toEqual([]);
    queue.say(worker, result(worker.lastJob()));
    expect(first).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request({ payload: bytes(600) })).toEqual([]);
  });

  it('are bounded for each tenant, and leave the others their room', () => {
    const queue = new QueueHarness({ max_waiting_bytes: 1001, tenant_share: 0.5 });
    queue.worker('w');
    queue.submit({});
    expect(queue.request({ tenant: 'ann', payload: bytes(500) })).toEqual([]);
    expect(queue.request({ tenant: 'ann', payload: bytes(2) })).toMatchObject([
      { reason: 'queue_full', message: expect.stringContaining('"ann"') },
    ]);
    expect(queue.request({ tenant: 'bob', payload: bytes(500) })).toEqual([]);
  });

  it('are not counted where a slot is free, and reach the worker as they came', () => {
    const queue = new QueueHarness({ max_waiting_bytes: 1 });
    const worker = queue.worker('w');
    const payload = new TextEncoder().encode('{"body":"grüße 👋"}') as Uint8Array<ArrayBuffer>;
    expect(queue.request({ payload })).toMatchObject([{ kind: 'stream' }]);
    expect(worker.lastJob().payload).toEqual({ body: 'grüße 👋' });
  });
});

describe('retention', () => {
  it('forgets a settled job with result and ledger after the time, and its id is free again', () => {
    const queue = new QueueHarness({ retention_seconds: 3600 });
    const worker = queue.worker('w');
    queue.job({ id: 'old' });
    queue.say(worker, result(worker.lastJob()));
    queue.say(worker, result(worker.lastJob()));
    expect([count(queue, 'jobs'), count(queue, 'ledger')]).toEqual([1, 1]);
    queue.advance(3599);
    expect(queue.state('old')).toBe('succeeded');
    queue.advance(2);
    expect(queue.state('old')).toBe('missing');
    expect([count(queue, 'jobs'), count(queue, 'ledger')]).toEqual([0, 0]);
    expect(queue.submit({ id: 'old', payload: '{"other":1}' })).toMatchObject([{ ok: true, created: true }]);
    expect(queue.queue.read('ledger', 'old', null)?.steps.map(({ step }) => step)).toEqual([
      'submitted',
      'dispatched',
    ]);
  });

  it('keeps what is not settled, however old', () => {
    const queue = new QueueHarness({ retention_seconds: 60 });
    const id = queue.job();
    const cancelled = queue.job();
    queue.queue.do('cancel', cancelled, 'cancelled', null);
    queue.advance(600);
    expect([queue.state(id), queue.state(cancelled)]).toEqual(['pending', 'missing']);
  });

  it('forgets many in small bites, each soon after the other', () => {
    const queue = new QueueHarness({ retention_seconds: 60 });
    for (const answer of queue.submit(...Array.from({ length: 500 }, () => ({})))) {
      if (answer.ok) queue.queue.do('cancel', answer.job.id, 'cancelled', null);
    }
    const left: number[] = [];
    queue.nowMs += 60_000;
    while (count(queue, 'jobs') > 0 && left.length < 10) {
      queue.alarmAt = null;
      queue.queue.onAlarm(null);
      left.push(count(queue, 'jobs'));
      if (count(queue, 'jobs') > 0) expect(queue.alarmAt).toBe(queue.nowMs + 50);
    }
    expect(left).toEqual([300, 100, 0]);
    expect(queue.alarmAt).toBeNull();
  });
});
