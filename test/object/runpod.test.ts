import { expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { ANSWERED_FIRST, bytes, type JobFrame, RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** RunPod's endpoints through a real queue; the worker is played by the test. */
const road = startTestQueue({ RECONNECT_GRACE_SECONDS: '2' });
let queueNumber = 0;

const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream; charset=utf-8' }, replayed: true };
const piece = (output: unknown) => `data: ${JSON.stringify({ output })}\n\n`;
const result = (output: unknown[]) => ({ status: 'success', job_type: 'runpod', output });
const INPUT = { input: { prompt: 'Hi', stream: true } };

/** A queue of its own for a test. */
function freshQueue(id = `q${++queueNumber}`) {
  const ask = async (method: 'GET' | 'POST', path: string, body?: unknown) => {
    const headers = { 'x-queue-id': id, 'content-type': 'application/json' };
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const response = await fetch(`${road.url}/v2/${path}`, init);
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const run = async (body: object = INPUT) => (await ask('POST', 'cfg/run', body)).body.id as string;
  const worker = async (more: Record<string, unknown> = {}) =>
    await (await new RawWorker(road.url).connect(id)).register('w', more);
  const status = async (job: string) => (await ask('GET', `cfg/status/${job}`)).body;
  return { id, ask, run, worker, status };
}

function error(worker: RawWorker, { job_id, fence_token }: JobFrame, more: object = {}): void {
  worker.send({
    type: 'job_error',
    job_id,
    fence_token,
    error: 'no such thing',
    code: 'engine_refused',
    ...more,
  });
}

it('a job goes from the queue to a worker and is completed, with RunPod’s fields', async () => {
  const { ask, run, worker, status } = freshQueue();
  const played = await worker();
  played.send({ type: 'pause' });
  const submitted = await ask('POST', 'cfg/run', { input: { prompt: 'Hi' } });
  expect(submitted).toEqual({ status: 200, body: { id: expect.stringMatching(/-u1$/), status: 'IN_QUEUE' } });
  const id = submitted.body.id as string;
  expect(await status(id)).toEqual({ id, status: 'IN_QUEUE' });
  played.send({ type: 'resume' });
  const job = await played.job();
  expect(job).toMatchObject({ job_type: 'runpod', payload: { input: { prompt: 'Hi' } } });
  expect(job.stream_id).toBeUndefined();
  const running = await status(id);
  expect(running).toEqual({
    id,
    status: 'IN_PROGRESS',
    delayTime: expect.any(Number),
    workerId: 'w',
    retries: 0,
  });
  played.result(job, result([{ choices: [] }]));
  const done = await until(async () => {
    const now = await status(id);
    return now.status === 'COMPLETED' && now;
  }, 'the job is completed');
  expect(done).toEqual({
    ...running,
    status: 'COMPLETED',
    executionTime: expect.any(Number),
    output: [{ choices: [] }],
  });
  expect(await ask('POST', `cfg/status/${id}`)).toMatchObject({ status: 200, body: { status: 'COMPLETED' } });
  expect(await run()).toMatch(/-u1$/);
});

it('runsync answers with the output, or with how the job stands when the wait is over', async () => {
  const { ask, worker } = freshQueue();
  const played = await worker();
  const asked = ask('POST', 'cfg/runsync', { input: { prompt: 'Hi' } });
  played.result(await played.job(), result(['done']));
  expect((await asked).body).toMatchObject({
    id: expect.stringMatching(/^sync-.*-u1$/),
    status: 'COMPLETED',
    output: ['done'],
  });
  const late = await ask('POST', 'cfg/runsync?wait=1000', { input: { prompt: 'Hi' } });
  expect(late.body).toMatchObject({ status: 'IN_PROGRESS', workerId: 'w' });
  expect(late.body).not.toHaveProperty('output');
  expect(await ask('POST', 'cfg/runsync?wait=5', { input: {} })).toEqual({
    status: 400,
    body: { error: 'wait: expected milliseconds from 1000 to 300000.' },
  });
});

it('a stream is polled piece by piece, over a restart of the queue, and each piece comes once', async () => {
  const { id: queueId, run, worker } = freshQueue();
  const played = await worker();
  const id = await run();
  const job = await played.job();
  const stream = job.stream_id as number;
  const events = piece('a') + piece('b');
  played.answer(
    { type: 'head', stream, head: HEAD },
    { type: 'bytes', stream, offset: 0, data: bytes(events) },
  );
  const poll = async () => (await freshQueue(queueId).ask('GET', `cfg/stream/${id}`)).body;
  expect(await poll()).toEqual({ id, status: 'IN_PROGRESS', stream: [{ output: 'a' }, { output: 'b' }] });
  played.answer({ type: 'bytes', stream, offset: events.length, data: bytes(piece('c')) });
  const third = await until(async () => {
    const { stream: pieces } = await poll();
    return (pieces as unknown[]).length > 0 && pieces;
  }, 'the third piece');
  expect(third).toEqual([{ output: 'c' }]);
  played.result(job, result(['a', 'b', 'c', 'd']));
  await played.next('ack');
  await road.restart();
  expect(await poll()).toEqual({ id, status: 'COMPLETED', stream: [{ output: 'd' }] });
  expect(await poll()).toEqual({ id, status: 'COMPLETED', stream: [] });
});

it('a failed job says why, is retried under its id, and what succeeded is not', async () => {
  const { ask, run, worker, status } = freshQueue();
  const played = await worker();
  const id = await run();
  error(played, await played.job());
  await until(async () => (await status(id)).status === 'FAILED', 'the job has failed');
  expect(await status(id)).toMatchObject({ error: 'no such thing', retries: 0, workerId: 'w' });
  expect(await ask('GET', `cfg/stream/${id}`)).toMatchObject({
    body: { status: 'FAILED', stream: [], error: 'no such thing' },
  });
  expect(await ask('POST', `cfg/retry/${id}`)).toEqual({ status: 200, body: { id, status: 'IN_QUEUE' } });
  const again = await played.job(1);
  expect(again).toMatchObject({ job_id: id, payload: INPUT });
  played.result(again, result(['now']));
  await until(async () => (await status(id)).status === 'COMPLETED', 'the job is completed');
  expect(await ask('POST', `cfg/retry/${id}`)).toEqual({
    status: 400,
    body: { error: 'Only jobs that are FAILED or TIMED_OUT can be retried; this one is COMPLETED.' },
  });
});

it('a job is cancelled, the queue purged, and health tells of both', async () => {
  const { ask, run, worker } = freshQueue();
  const played = await worker();
  const running = await run();
  await played.job();
  await run();
  await run();
  expect((await ask('GET', 'cfg/health')).body).toEqual({
    jobs: { completed: 0, failed: 0, retried: 0, inProgress: 1, inQueue: 2 },
    workers: { idle: 0, initializing: 0, ready: 1, running: 1, throttled: 0, unhealthy: 0 },
  });
  expect((await ask('POST', 'default/purge-queue')).body).toEqual({ removed: 2, status: 'completed' });
  expect(await ask('POST', `cfg/cancel/${running}`)).toMatchObject({
    status: 200,
    body: { id: running, status: 'CANCELLED' },
  });
  await played.next('job_revoked');
  expect((await ask('GET', 'tiny/health')).body).toMatchObject({
    jobs: { inProgress: 0, inQueue: 0 },
    workers: { idle: 1, running: 0 },
  });
});

it('what cannot be is refused in RunPod’s form', async () => {
  const { ask, worker } = freshQueue();
  expect(await ask('POST', 'cfg/run', INPUT)).toEqual({
    status: 404,
    body: { error: 'There is no endpoint "cfg". No worker is known here.' },
  });
  await worker();
  expect(await ask('POST', 'nowhere/run', INPUT)).toEqual({
    status: 404,
    body: { error: 'There is no endpoint "nowhere". Endpoints there are: cfg.' },
  });
  expect(await ask('GET', 'nowhere/health')).toMatchObject({ status: 404 });
  expect(await ask('POST', 'nowhere/purge-queue')).toMatchObject({ status: 404 });
  for (const [method, path] of [
    ['GET', 'cfg/status/ghost'],
    ['GET', 'cfg/stream/ghost'],
    ['POST', 'cfg/cancel/ghost'],
    ['POST', 'cfg/retry/ghost'],
  ] as const) {
    expect(await ask(method, path)).toEqual({ status: 404, body: { error: 'There is no job "ghost".' } });
  }
  expect(await ask('POST', 'cfg/run', { ...INPUT, webhook: 'https://example.com' })).toMatchObject({
    status: 400,
    body: { error: expect.stringMatching(/^webhook: /) },
  });
  expect(await ask('GET', 'cfg/run')).toMatchObject({ status: 405, body: { error: expect.any(String) } });
});

it('openai/v1 is the same as /v1, errors and streams included', async () => {
  const { id, worker } = freshQueue();
  const played = await worker();
  const body = JSON.stringify({ model: 'tiny', messages: [], stream: true });
  const headers = { 'x-queue-id': id, 'x-request-id': 'mine' };
  const asked = fetch(`${road.url}/v2/cfg/openai/v1/chat/completions`, {
    method: 'POST',
    headers: { ...headers, ...ANSWERED_FIRST },
    body,
  });
  const job = await played.job();
  expect(job.payload).toMatchObject({ path: '/v1/chat/completions', body });
  const stream = job.stream_id as number;
  const { replayed: _, ...head } = HEAD;
  const text = 'data: [DONE]\n\n';
  played.answer(
    { type: 'head', stream, head },
    { type: 'bytes', stream, offset: 0, data: bytes(text) },
    { type: 'end', stream, size: text.length },
  );
  played.result(job);
  const answer = await asked;
  expect([answer.status, answer.headers.get('x-request-id'), await answer.text()]).toEqual([
    200,
    'mine',
    text,
  ]);
  const models = await fetch(`${road.url}/v2/cfg/openai/v1/models`, { headers });
  expect(await models.json()).toMatchObject({ data: [{ id: 'tiny' }] });
  const unknown = await fetch(`${road.url}/v2/cfg/openai/v1/messages`, {
    method: 'POST',
    headers: { ...headers, ...REFUSED_FIRST },
    body: '{"model":"ghost","messages":[]}',
  });
  expect([unknown.status, await unknown.json()]).toMatchObject([404, { type: 'error' }]);
});

it('jobs of other kinds are not RunPod’s', async () => {
  const { id, ask } = freshQueue();
  const job = { id: 'chat-1', job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
  await fetch(`${road.url}/api/jobs`, {
    method: 'POST',
    headers: { 'x-queue-id': id },
    body: JSON.stringify(job),
  });
  expect(await ask('GET', 'cfg/status/chat-1')).toMatchObject({ status: 404 });
  expect(await ask('GET', 'cfg/stream/chat-1')).toMatchObject({ status: 404 });
});

it('a job that was submitted as any other streams as its worker makes it, and after', async () => {
  const { id: queueId, worker } = freshQueue();
  const played = await worker();
  const headers = { 'x-queue-id': queueId };
  const job = { id: 'r-1', job_type: 'runpod', config_id: 'cfg', stream: true, payload: INPUT };
  const post = (body: object) =>
    fetch(`${road.url}/api/jobs`, { method: 'POST', headers, body: JSON.stringify(body) });
  expect((await post(job)).status).toBe(201);
  played.result(await played.job(), result(['a', 'b']));
  await played.next('ack');
  const stream = await fetch(`${road.url}/api/jobs/r-1/stream`, { headers });
  expect([stream.headers.get('content-type'), await stream.text()]).toEqual([
    'text/event-stream; charset=utf-8',
    piece('a') + piece('b'),
  ]);
  const whole = await post({ ...job, id: 'r-2', payload: { input: { prompt: 'Hi' } } });
  expect([whole.status, await whole.json()]).toMatchObject([
    400,
    { error: { message: 'stream: the input asks for no stream.' } },
  ]);
});

it('an endpoint that is called "default" itself is found beside others', async () => {
  const { id, ask, worker } = freshQueue();
  const played = await worker({ config_id: 'default' });
  await (await new RawWorker(road.url).connect(id)).register('other', { config_id: 'cfg' });
  expect((await ask('POST', 'default/run', INPUT)).status).toBe(200);
  expect(await played.job()).toMatchObject({ job_type: 'runpod' });
});
