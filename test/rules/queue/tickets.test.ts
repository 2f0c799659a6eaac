import { describe, expect, it } from 'vitest';
import { bounds, pack } from '../../../src/protocol/index.ts';
import { payloadFileId } from '../../../src/queue/rpc.ts';
import { type FakeConnection, QueueHarness, ticketOf } from '../../support/queue-harness.ts';

const LARGE_FILE = payloadFileId('a'.repeat(64), true);

function announce(queue: QueueHarness, worker: FakeConnection, job = worker.lastJob()): void {
  queue.say(worker, { type: 'job_result_ref', job_id: job.job_id, fence_token: job.fence_token });
}

const store = (queue: QueueHarness, address: unknown, file: string) =>
  queue.queue.do('storeResult', ticketOf(address), file);
const kept = (queue: QueueHarness, job: string, ...files: string[]) =>
  queue.queue.read(
    'filesKeptUntil',
    files.map((file) => ({ file, job })),
  );
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const lastAck = (worker: FakeConnection) => worker.frames('ack').at(-1);

describe('a payload', () => {
  it('that lies in a file is fetched instead of sent, one that lies in the row is sent', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.job({ payload: '', payload_file: LARGE_FILE });
    const large = worker.lastJob();
    expect(large.payload).toEqual({});
    expect(large.payload_url).toMatch(/^jobs\/job-\d+\/payload\?queue_id=q&fence_token=1&key=[0-9a-f]{64}$/);
    expect(queue.queue.read('payloadOf', ticketOf(large.payload_url))).toEqual({
      ok: true,
      job_type: 'chat_completion',
      payload: { file: LARGE_FILE },
    });
    queue.job({ payload: JSON.stringify({ text: 'a'.repeat(200_000) }) });
    expect(worker.lastJob()).toMatchObject({ payload: { text: expect.any(String) } });
    expect(worker.lastJob().payload_url).toBeUndefined();
  });

  it('in a file is fetched by a base worker that can run it, and goes to no other', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const file = (suitsBase: boolean) => payloadFileId('b'.repeat(64), suitsBase);
    const unfit = queue.job({ job_type: 'engine_request', payload: '', payload_file: file(false) });
    expect(queue.queue.read('get', unfit, null)?.error).toMatchObject({ code: 'unsupported_by_worker' });
    queue.job({ job_type: 'engine_request', payload: '', payload_file: file(true) });
    expect(worker.lastJob().payload_url).toMatch(/^https:\/\/queue\.test\/jobs\/.*form=base/);
  });

  it('is not given to another attempt, after the end, without the key, or of a job there is not', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ payload: '', payload_file: LARGE_FILE });
    const ticket = ticketOf(worker.lastJob().payload_url);
    const read = (change: object) => queue.queue.read('payloadOf', { ...ticket, ...change });
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
    const body = new Uint8Array(bounds.FRAME_BYTES + 1).fill(0x22);
    queue.request({ payload: pack('{"method":"POST","path":"/v1/x"}', body) as Uint8Array<ArrayBuffer> });
    expect(worker.binaryMessages).toBe(1);
    expect(worker.closed).toBeNull();
  });
});

describe('a result', () => {
  it('is named by its attempt, settles the job when it is announced, and is acknowledged again when repeated', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { result_upload_url } = worker.lastJob();
    expect(store(queue, result_upload_url, 'first')).toEqual({ ok: true });
    expect(store(queue, result_upload_url, 'second')).toEqual({ ok: true });
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased' });
    expect(queue.queue.read('get', id, null)?.result_file).toBeUndefined();
    announce(queue, worker);
    const settled = { state: 'succeeded', result: null, result_file: 'second' };
    expect(queue.queue.read('get', id, null)).toMatchObject(settled);
    expect(queue.queue.read('contents', id, 'result', null)).toEqual({ file: 'second' });
    announce(queue, worker);
    expect(worker.frames('ack').map(({ outcome }) => outcome)).toEqual(['accepted', 'accepted']);
    expect(store(queue, result_upload_url, 'third')).toEqual({ ok: false, reason: 'stale' });
    queue.restart();
    expect(queue.queue.read('get', id, null)).toMatchObject(settled);
  });

  it('of an attempt whose job was given away is refused, and its announcement changes nothing', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    const id = queue.job();
    const old = first.lastJob().result_upload_url;
    store(queue, old, 'of the first');
    queue.drop(first);
    const second = queue.worker('second');
    queue.advance(20);
    expect(second.lastJob().job_id).toBe(id);
    expect(store(queue, old, 'late')).toEqual({ ok: false, reason: 'stale' });
    const back = queue.worker('first');
    announce(queue, back, first.lastJob());
    expect(lastAck(back)).toMatchObject({ outcome: 'stale' });
    expect(queue.state(id)).toBe('leased');
    // The newer attempt cannot settle with what the older one put there.
    announce(queue, second);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempts: 2 });
  });

  it('that was put and not announced is nobody’s when the job is settled otherwise', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const [sent, cancelled] = [queue.job(), queue.job()];
    for (const job of worker.frames('job')) store(queue, job.result_upload_url, `of ${job.job_id}`);
    const [job] = worker.frames('job');
    queue.say(worker, { type: 'job_result', job_id: sent, fence_token: job?.fence_token, result: { a: 1 } });
    queue.queue.do('cancel', cancelled, 'cancelled', null);
    expect(queue.queue.read('get', sent, null)?.result).toEqual({ a: 1 });
    expect([kept(queue, sent, `of ${sent}`), kept(queue, cancelled, `of ${cancelled}`)]).toEqual([
      [null],
      [null],
    ]);
  });

  it('whose lease ran out still counts while nobody else was given the job', () => {
    const queue = new QueueHarness({ lease_seconds: 10 });
    const worker = queue.worker('w');
    const id = queue.job();
    queue.advance(11.1);
    expect(queue.state(id)).toBe('pending');
    expect(store(queue, worker.lastJob().result_upload_url, 'late')).toEqual({ ok: true });
    announce(queue, worker);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'succeeded', result_file: 'late' });
  });

  it('of a base worker is put at a whole address and acknowledged in the base form', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    const { result_upload_url } = worker.lastJob();
    expect(result_upload_url).toMatch(/^https:\/\/queue\.test\/jobs\//);
    store(queue, result_upload_url, 'file');
    announce(queue, worker);
    expect(worker.frames('job_result_ref')).toEqual([{ type: 'job_result_ref', job_id: id }]);
    expect(worker.frames('ack')).toEqual([]);
    expect(queue.state(id)).toBe('succeeded');
  });
});

describe('files', () => {
  it('are kept while their job names them, and until it is forgotten', () => {
    const queue = new QueueHarness({ retention_seconds: 7200 });
    const worker = queue.worker('w');
    const id = queue.job({ payload: '', payload_file: LARGE_FILE });
    const now = () => queue.nowMs;
    store(queue, worker.lastJob().result_upload_url, 'replaced');
    store(queue, worker.lastJob().result_upload_url, 'result');
    const files = [LARGE_FILE, 'result', 'replaced', 'another'];
    expect(kept(queue, id, ...files)).toEqual([now() + HOUR_MS, now() + HOUR_MS, null, null]);
    expect(kept(queue, 'other', LARGE_FILE)).toEqual([null]);
    announce(queue, worker);
    const until = now() + 7_200_000 + MINUTE_MS;
    expect(kept(queue, id, ...files)).toEqual([until, until, null, null]);
    queue.restart();
    expect(kept(queue, id, ...files)).toEqual([until, until, null, null]);
    queue.advance(7201);
    expect(queue.state(id)).toBe('missing');
    expect(kept(queue, id, ...files)).toEqual([null, null, null, null]);
  });

  it('of a retention time that has become shorter are kept until the job is forgotten', () => {
    const queue = new QueueHarness({ retention_seconds: 60 });
    const id = queue.job({ payload: '', payload_file: LARGE_FILE });
    queue.queue.do('cancel', id, 'cancelled', null);
    queue.nowMs += 600_000;
    expect(kept(queue, id, LARGE_FILE)).toEqual([queue.nowMs + MINUTE_MS]);
  });
});
