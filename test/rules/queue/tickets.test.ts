import { describe, expect, it } from 'vitest';
import { type JobView, limits, pack } from '../../../src/protocol/index.ts';
import { unpackView } from '../../../src/queue/rpc.ts';
import { type FakeConnection, QueueHarness, ticketOf } from '../../support/queue-harness.ts';

const LARGE = JSON.stringify({ messages: [], text: 'ä'.repeat(200_000) });
const RESULT = JSON.stringify({ status: 'success', text: '🙂'.repeat(600_000) });

/** What is left in the tables of uploads and long texts. */
function stored(queue: QueueHarness): Record<string, number> {
  const count = (table: string) =>
    Number(queue.database.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0);
  return { uploads: count('uploads'), long_texts: count('long_texts') };
}

function announce(queue: QueueHarness, worker: FakeConnection, job = worker.lastJob()): void {
  queue.say(worker, { type: 'job_result_ref', job_id: job.job_id, fence_token: job.fence_token });
}

const resultOf = (queue: QueueHarness, id: string) =>
  unpackView(queue.queue.read('get', id, null) as JobView).result;
const lastAck = (worker: FakeConnection) => worker.frames('ack').at(-1);

describe('a payload', () => {
  it('over 256 KiB in UTF-8 is fetched instead of sent, a smaller one is sent', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.job({ payload: LARGE });
    const large = worker.lastJob();
    expect(large.payload).toEqual({});
    expect(large.payload_url).toMatch(/^jobs\/job-\d+\/payload\?queue_id=q&fence_token=1&key=[0-9a-f]{64}$/);
    expect(queue.queue.read('readFile', ticketOf(large.payload_url), 'own')).toEqual({
      ok: true,
      text: LARGE,
    });
    queue.job({ payload: JSON.stringify({ text: 'a'.repeat(200_000) }) });
    expect(worker.lastJob()).toMatchObject({ payload: { text: expect.any(String) } });
    expect(worker.lastJob().payload_url).toBeUndefined();
  });

  it('is not given to another attempt, after the end, without the key, or of a job there is not', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ payload: LARGE });
    const ticket = ticketOf(worker.lastJob().payload_url);
    const read = (change: object) => queue.queue.read('readFile', { ...ticket, ...change }, 'own');
    expect(read({ key: '' })).toEqual({ ok: false, reason: 'unknown' });
    expect(read({ key: `${ticket.key}0` })).toEqual({ ok: false, reason: 'unknown' });
    expect(read({ job_id: 'other' })).toEqual({ ok: false, reason: 'unknown' });
    expect(read({ key: '0'.repeat(64), fence_token: 7 })).toEqual({ ok: false, reason: 'unknown' });
    expect(read({ fence_token: ticket.fence_token - 1 })).toEqual({ ok: false, reason: 'stale' });
    expect(read({})).toMatchObject({ ok: true });
    queue.queue.do('cancel', id, 'cancelled', null);
    expect(read({})).toEqual({ ok: false, reason: 'stale' });
    expect(read({ key: '0'.repeat(64) })).toEqual({ ok: false, reason: 'unknown' });
  });

  it('of a caller that waits is sent to an extended worker at once, whatever its size', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ payload: JSON.stringify({ path: '/v1/x', body: 'x'.repeat(400_000) }) });
    expect(worker.lastJob()).toMatchObject({ payload: { path: '/v1/x' } });
    expect(worker.lastJob().payload_url).toBeUndefined();
    expect(worker.lastJob().result_upload_url).toBeUndefined();
  });

  it('of a caller that waits goes as the bytes it is kept as where it is large', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 3 });
    const large = { path: '/v1/x', body: `😀${'x'.repeat(400_000)}` };
    queue.request({ payload: new TextEncoder().encode(JSON.stringify(large)) });
    expect(worker.lastJob()).toMatchObject({ type: 'job', mode: 'transient', payload: large });
    expect(worker.binaryMessages).toBe(1);
    queue.request({ payload: '{"path":"/v1/x"}', model: 'tiny' });
    expect(worker.lastJob()).toMatchObject({ payload: { path: '/v1/x' } });
    expect(worker.binaryMessages).toBe(1);
  });

  it('may be as long as any body', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const body = new Uint8Array(limits.FRAME_BYTES + 1).fill(0x22);
    queue.request({ payload: pack('{"method":"POST","path":"/v1/x"}', body) as Uint8Array<ArrayBuffer> });
    expect(worker.binaryMessages).toBe(1);
    expect(worker.closed).toBeNull();
  });
});

describe('a result', () => {
  it('is put beside its job, settles it when it is announced, and is acknowledged again when repeated', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const ticket = ticketOf(worker.lastJob().result_upload_url);
    expect(queue.queue.do('storeFile', ticket, '{"first":true}')).toEqual({ ok: true });
    expect(queue.queue.do('storeFile', ticket, RESULT)).toEqual({ ok: true });
    expect(queue.state(id)).toBe('leased');
    announce(queue, worker);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'succeeded' });
    expect(resultOf(queue, id)).toEqual(JSON.parse(RESULT));
    expect(stored(queue).uploads).toBe(0);
    announce(queue, worker);
    expect(worker.frames('ack').map(({ outcome }) => outcome)).toEqual(['accepted', 'accepted']);
    expect(queue.queue.do('storeFile', ticket, '{}')).toEqual({ ok: false, reason: 'stale' });
    expect(resultOf(queue, id)).toEqual(JSON.parse(RESULT));
  });

  it('of an attempt whose job was given away is refused, and its announcement changes nothing', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    const id = queue.job();
    const old = ticketOf(first.lastJob().result_upload_url);
    queue.queue.do('storeFile', old, '{"of":"first"}');
    queue.drop(first);
    const second = queue.worker('second');
    queue.advance(20);
    expect(second.lastJob().job_id).toBe(id);
    expect(queue.queue.do('storeFile', old, '{}')).toEqual({ ok: false, reason: 'stale' });
    const back = queue.worker('first');
    announce(queue, back, first.lastJob());
    expect(lastAck(back)).toMatchObject({ outcome: 'stale' });
    expect(queue.state(id)).toBe('leased');
    // The newer attempt cannot settle with what the older one put there.
    announce(queue, second);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempts: 2 });
  });

  it('that was put and not announced goes when the job is settled otherwise', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const [sent, cancelled] = [queue.job(), queue.job()];
    for (const job of worker.frames('job'))
      queue.queue.do('storeFile', ticketOf(job.result_upload_url), RESULT);
    expect(stored(queue).uploads).toBeGreaterThan(2);
    const [job] = worker.frames('job');
    queue.say(worker, { type: 'job_result', job_id: sent, fence_token: job?.fence_token, result: { a: 1 } });
    queue.queue.do('cancel', cancelled, 'cancelled', null);
    expect(queue.queue.read('get', sent, null)?.result).toEqual({ a: 1 });
    expect(stored(queue)).toEqual({ uploads: 0, long_texts: 0 });
  });

  it('whose lease ran out still counts while nobody else was given the job', () => {
    const queue = new QueueHarness({ lease_seconds: 10 });
    const worker = queue.worker('w');
    const id = queue.job();
    const ticket = ticketOf(worker.lastJob().result_upload_url);
    queue.advance(11.1);
    expect(queue.state(id)).toBe('pending');
    expect(queue.queue.do('storeFile', ticket, '{"late":1}')).toEqual({ ok: true });
    announce(queue, worker);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'succeeded', result: { late: 1 } });
  });

  it('of a base worker is put at a whole address and acknowledged in the base form', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    const { result_upload_url } = worker.lastJob();
    expect(result_upload_url).toMatch(/^https:\/\/queue\.test\/jobs\//);
    queue.queue.do('storeFile', ticketOf(result_upload_url), RESULT);
    announce(queue, worker);
    expect(worker.frames('job_result_ref')).toEqual([{ type: 'job_result_ref', job_id: id }]);
    expect(worker.frames('ack')).toEqual([]);
    expect(queue.state(id)).toBe('succeeded');
  });
});
