import { expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { withoutComments } from '../support/comments.ts';
import { until } from '../support/poll.ts';
import { bytes, type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Stored jobs that stream, through a real queue; the worker is played by the test. */
let queueNumber = 0;
const road = startTestQueue({ RECONNECT_GRACE_SECONDS: '2' });

const EVENTS = 'text/event-stream; charset=utf-8';
const WHOLE = 'data: 1\n\ndata: [DONE]\n\n';

const streaming = {
  job_type: 'engine_request',
  config_id: 'cfg',
  stream: true,
  payload: { path: '/v1/completions', body: '{"model":"tiny","stream":true}' },
};

/** A queue of its own for a test, by HTTP. */
function freshQueue() {
  const id = `q${++queueNumber}`;
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${road.url}/api/jobs${path}`, { ...init, headers: { 'x-queue-id': id } });
  const submit = async (job: object = {}) => {
    const response = await ask('', { method: 'POST', body: JSON.stringify({ ...streaming, ...job }) });
    expect(response.status).toBe(201);
    return ((await response.json()) as JobView).id;
  };
  const worker = async () => await (await new RawWorker(road.url).connect(id)).register('w');
  return { ask, submit, worker };
}

/** Begins the answer of a job with these events. */
function begin(worker: RawWorker, job: JobFrame, events: string): void {
  const stream = job.stream_id as number;
  const head = { status: 200, headers: { 'content-type': EVENTS }, replayed: true };
  worker.answer({ type: 'head', stream, head }, { type: 'bytes', stream, offset: 0, data: bytes(events) });
}

/** Returns all of a body, without the comments that a caller gets where its answer takes long. */
async function textOf(response: Response): Promise<string> {
  return withoutComments(await response.text());
}

/** Reads until this much has come, without comments. */
async function read(reader: ReadableStreamDefaultReader<Uint8Array>, length: number): Promise<string> {
  let text = '';
  while (text.length < length) {
    const { value, done } = await reader.read();
    if (done) break;
    text = withoutComments(text + new TextDecoder().decode(value));
  }
  return text;
}

it('is read by several from its beginning, live and after it has settled', async () => {
  const { ask, submit, worker } = freshQueue();
  const id = await submit();
  const waiting = ask(`/${id}/stream`);
  const played = await worker();
  const job = await played.job();
  begin(played, job, 'data: 1\n\n');
  const early = await waiting;
  expect([early.status, early.headers.get('content-type'), early.headers.get('x-job-id')]).toEqual([
    200,
    EVENTS,
    id,
  ]);
  const earlyReader = early.body!.getReader();
  expect(await read(earlyReader, 9)).toBe('data: 1\n\n');
  const hangsUp = (await ask(`/${id}/stream`)).body!.getReader();
  expect(await read(hangsUp, 9)).toBe('data: 1\n\n');
  await hangsUp.cancel();
  const late = await ask(`/${id}/stream`);
  const stream = job.stream_id as number;
  played.answer(
    { type: 'bytes', stream, offset: 9, data: bytes('data: [DONE]\n\n') },
    { type: 'end', stream, size: WHOLE.length },
  );
  expect(await read(earlyReader, WHOLE.length)).toBe('data: [DONE]\n\n');
  expect(await textOf(late)).toBe(WHOLE);
  expect(played.records.map(({ type }) => type)).not.toContain('cancel');
  played.result(job, { status: 'success', response: { status: 200, content_type: EVENTS, body: WHOLE } });
  await until(
    async () => ((await (await ask(`/${id}`)).json()) as JobView).state === 'succeeded',
    'the job succeeded',
  );
  const after = await ask(`/${id}/stream`);
  expect([after.status, after.headers.get('content-type'), await after.text()]).toEqual([200, EVENTS, WHOLE]);
});

it('never mixes two attempts: readers of the first end with an error event, later ones get the second', async () => {
  const { ask, submit, worker } = freshQueue();
  const id = await submit();
  const played = await worker();
  const first = await played.job();
  begin(played, first, 'data: old\n\n');
  const early = await ask(`/${id}/stream`);
  const reason = { message: 'the engine died', code: 'engine_died', retryable: true };
  played.answer({ type: 'broken', stream: first.stream_id as number, reason });
  expect(await textOf(early)).toMatch(/^data: old\n\ndata: \{"error".*engine died.*\[DONE\]\n\n$/s);
  const between = ask(`/${id}/stream`);
  const { message: error, ...rest } = reason;
  played.send({ type: 'job_error', job_id: id, fence_token: first.fence_token, error, ...rest });
  const second = await played.job(1);
  begin(played, second, WHOLE);
  played.answer({ type: 'end', stream: second.stream_id as number, size: WHOLE.length });
  expect(await textOf(await between)).toBe(WHOLE);
});

it('ends with the result where its worker could not stream it, or its relay was lost', async () => {
  const { ask, submit, worker } = freshQueue();
  const id = await submit();
  const played = await worker();
  const job = await played.job();
  const waiting = ask(`/${id}/stream`);
  played.result(job, { status: 'success', response: { status: 200, content_type: EVENTS, body: WHOLE } });
  expect(await textOf(await waiting)).toBe(WHOLE);
});

it('tells the error of a job that failed or was cancelled', async () => {
  const { ask, submit, worker } = freshQueue();
  const failing = await submit();
  const played = await worker();
  const { job_id, fence_token } = await played.job();
  const waiting = ask(`/${failing}/stream`);
  const error = { error: 'no such model', code: 'engine_refused', retryable: false, http_status: 404 };
  played.send({ type: 'job_error', job_id, fence_token, ...error });
  // A response that takes long has begun with 200, and the error is its only event.
  expect(await (await waiting).text()).toContain('"code":"engine_refused"');
  const failed = await ask(`/${failing}/stream`);
  expect([failed.status, await failed.json()]).toMatchObject([404, { error: { code: 'engine_refused' } }]);
  const cancelled = await submit();
  await played.job(1);
  const watching = ask(`/${cancelled}/stream`);
  await ask(`/${cancelled}`, { method: 'DELETE' });
  expect(await (await watching).text()).toContain('"code":"cancelled"');
  const gone = await ask(`/${cancelled}/stream`);
  expect([gone.status, await gone.json()]).toMatchObject([409, { error: { code: 'cancelled' } }]);
});

it('is refused for jobs that do not stream, and that could not', async () => {
  const { ask, submit } = freshQueue();
  const whole = await ask(`/${await submit({ stream: false })}/stream`);
  expect([whole.status, await whole.json()]).toMatchObject([409, { error: { code: 'not_streamed' } }]);
  expect((await ask('/none/stream')).status).toBe(404);
  for (const job of [
    { job_type: 'chat_completion', payload: { messages: [] } },
    { payload: { path: '/v1/completions', body: '{"model":"tiny"}' } },
  ]) {
    const body = JSON.stringify({ ...streaming, ...job });
    const refused = await ask('', { method: 'POST', body });
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { message: expect.stringMatching(/^stream: /) } },
    ]);
  }
});
