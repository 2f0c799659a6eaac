import { expect, test } from 'vitest';
import { EXIT } from '../../../src/process/exit-codes.ts';
import { endOfStep } from '../../../src/process/way-down.ts';
import { bounds } from '../../../src/protocol/index.ts';
import { MemorySpool } from '../../support/memory-spool.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const URL = 'https://files/result';
const LARGE = 'x'.repeat(300_000);
const ACCEPTED = { type: 'ack', job_id: 'j1', fence_token: 1, outcome: 'accepted' };

/** Uploads of one worker that are answered when the test says so. */
class Uploads {
  readonly signals: AbortSignal[] = [];
  readonly bodies: string[] = [];
  #answer: (status: number) => void = () => {};

  constructor(bench: WorkerBench) {
    bench.fetch = (_url, init) => {
      const { promise, resolve, reject } = Promise.withResolvers<Response>();
      this.#answer = (status) => resolve(new Response(null, { status }));
      this.bodies.push(String(init?.body));
      this.signals.push(init!.signal!);
      init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason));
      return promise;
    };
  }

  get isAborted(): boolean | undefined {
    return this.signals.at(-1)?.aborted;
  }

  async answer(status: number): Promise<void> {
    this.#answer(status);
    await settled();
  }
}

/** A worker that has begun to upload the result of its only job. */
async function uploading(bench: WorkerBench, text = LARGE): Promise<Uploads> {
  const uploads = new Uploads(bench);
  await bench.push({ result_upload_url: URL });
  bench.engine.last.complete(text);
  await settled();
  await settled();
  expect(uploads.signals).toHaveLength(1);
  return uploads;
}

test('a large result is put to its address and announced, a small one sent inline', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  const puts: [string, number][] = [];
  bench.fetch = async (url, init) => {
    puts.push([`${init?.method} ${url}`, String(init?.body).length]);
    return new Response(null, { status: 200 });
  };
  await bench.push({ result_upload_url: 'https://files/result' });
  bench.engine.last.complete('x'.repeat(300_000));
  await settled();
  expect(puts).toEqual([['PUT https://files/result', expect.any(Number)]]);
  expect(puts[0]![1]).toBeGreaterThan(300_000);
  const usage = { prompt_tokens: 2, completion_tokens: 3, model: 'tiny' };
  expect(bench.queue.framesOf('job_result_ref')).toEqual([
    { type: 'job_result_ref', job_id: 'j1', fence_token: 1, timing: { started_ms: 0 }, usage },
  ]);
  await bench.push({ job_id: 'j2', result_upload_url: 'https://files/result' });
  bench.engine.last.complete('x');
  await settled();
  expect(bench.results).toMatchObject([{ job_id: 'j2' }]);
});

test('a large result whose upload is refused is sent inline at once', async () => {
  const bench = await new WorkerBench().ready();
  const uploads = await uploading(bench);
  await uploads.answer(403);
  expect([uploads.signals.length, bench.results.length]).toEqual([1, 1]);
});

test('an upload is tried again when its server is away for a moment', async () => {
  const bench = await new WorkerBench().ready();
  const uploads = await uploading(bench);
  await uploads.answer(503);
  await bench.clock.advance(1000);
  await uploads.answer(200);
  expect(uploads.bodies[1]).toBe(uploads.bodies[0]);
  expect(bench.queue.framesOf('job_result_ref')).toMatchObject([{ job_id: 'j1', fence_token: 1 }]);
  expect(bench.results).toEqual([]);
});

test('a large result whose upload fails three times is sent inline', async () => {
  const bench = await new WorkerBench().ready();
  const uploads = await uploading(bench);
  for (const pauseMs of [1000, 2000, 0]) {
    expect(bench.results).toEqual([]);
    await uploads.answer(500);
    await bench.clock.advance(pauseMs);
  }
  expect([uploads.signals.length, bench.results.length]).toEqual([3, 1]);
});

test('a result on its way to its address needs no slot and no engine, and its lease is renewed', async () => {
  const bench = await new WorkerBench({ renewAfterSeconds: 10 }).ready();
  const uploads = await uploading(bench);
  expect(bench.worker.running).toBe(0);
  bench.worker.engineRestarting('vllm died: killed');
  await bench.clock.advance(10_000);
  expect(bench.queue.framesOf('renew')).toMatchObject([{ jobs: [{ job_id: 'j1', fence_token: 1 }] }]);
  expect(bench.queue.framesOf('job_result_ref')).toEqual([]);
  await uploads.answer(200);
  expect(bench.queue.framesOf('job_result_ref')).toMatchObject([{ job_id: 'j1', fence_token: 1 }]);
  expect(bench.errors).toEqual([]);
});

test('a result that is revoked while it is uploaded is not uploaded further, nor announced', async () => {
  const bench = await new WorkerBench().ready();
  const uploads = await uploading(bench);
  bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason: 'cancelled' });
  await settled();
  expect(uploads.isAborted).toBe(true);
  expect([bench.results, bench.queue.framesOf('job_result_ref')]).toEqual([[], []]);
});

test('an upload goes on while the queue is away, and is not begun twice', async () => {
  const bench = await new WorkerBench().ready();
  const uploads = await uploading(bench);
  await bench.reconnect({ resumed: ['j1'] });
  expect([uploads.signals.length, uploads.isAborted]).toEqual([1, false]);
  await uploads.answer(200);
  expect(bench.queue.framesOf('job_result_ref')).toHaveLength(1);
});

test('a drain waits for an upload that fits the grace', async () => {
  const bench = await new WorkerBench().ready();
  const uploads = await uploading(bench);
  bench.worker.drain();
  await bench.clock.advance(4999);
  expect([bench.exitCode, uploads.isAborted]).toEqual([null, false]);
  await uploads.answer(200);
  bench.queue.push(ACCEPTED);
  await settled();
  expect(bench.exitCode).toBe(EXIT.ok);
  expect([bench.results, bench.queue.framesOf('job_release')]).toEqual([[], []]);
});

test.each(['the end of the grace', 'a second signal', 'the end of the engine'])(
  'at %s an unfinished upload is given up and the result goes in a frame',
  async (end) => {
    const bench = await new WorkerBench().ready();
    const uploads = await uploading(bench);
    if (end === 'the end of the engine') bench.worker.engineFailed('killed', true);
    else bench.worker.drain();
    if (end === 'a second signal') bench.worker.force();
    else await bench.clock.advance(end === 'the end of the grace' ? 5000 : 0);
    expect(uploads.isAborted).toBe(true);
    expect(bench.results).toMatchObject([{ job_id: 'j1', result: { status: 'success' } }]);
    bench.queue.push(ACCEPTED);
    await settled();
    expect(bench.exitCode).not.toBeNull();
    expect([bench.errors, bench.clock.armed]).toEqual([[], 0]);
  },
);

test('a result that no frame takes is uploaded until both clocks are over, and again by the next process', async () => {
  const spool = new MemorySpool();
  const first = await new WorkerBench({}, spool).readyWithBase();
  const before = await uploading(first, 'x'.repeat(bounds.BASE_QUEUE_FRAME_BYTES));
  first.worker.drain();
  await first.clock.advance(endOfStep('acknowledgements', 5000) - 1);
  expect([first.exitCode, before.isAborted]).toEqual([null, false]);
  await first.clock.advance(1);
  expect([first.exitCode, before.isAborted, first.clock.armed]).toEqual([EXIT.ok, true, 0]);
  expect([first.results, first.errors, spool.size]).toEqual([[], [], 1]);
  const second = new WorkerBench({}, spool);
  const uploads = new Uploads(second);
  await second.readyWithBase();
  await settled();
  expect(uploads.bodies).toEqual(before.bodies);
  await uploads.answer(200);
  expect(second.queue.framesOf('job_result_ref')).toMatchObject([{ job_id: 'j1', fence_token: 1 }]);
  await settled();
  expect(spool.size).toBe(0);
});

test('a process that is killed during an upload leaves the result to the next one', async () => {
  const spool = new MemorySpool();
  const first = await new WorkerBench({}, spool).ready();
  await uploading(first);
  spool.crash();
  const second = new WorkerBench({}, spool);
  const uploads = new Uploads(second);
  await second.ready();
  expect(second.queue.framesOf('register')[0]?.jobs).toEqual([{ job_id: 'j1', fence_token: 1 }]);
  // The slots, offered once the engine is healthy.
  second.queue.grant({ resumed: ['j1'] });
  await settled();
  await uploads.answer(403);
  expect(second.results).toMatchObject([{ job_id: 'j1', fence_token: 1 }]);
  second.queue.push(ACCEPTED);
  await settled();
  expect(spool.size).toBe(0);
});
