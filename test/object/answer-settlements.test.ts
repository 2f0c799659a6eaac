import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { AnswerRecord } from '../../src/protocol/index.ts';
import { type RunningWorkerd, startWorkerd } from '../../src/workerd/process.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, type JobFrame, RawWorker } from '../support/raw-worker.ts';

/** A worker that settles on its answer socket, in a real workerd; the worker is played by the test. */
let stateDir: string;
let road: RunningWorkerd;
let queueNumber = 0;

beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'answer-settlements-'));
  road = await startWorkerd({ host: '127.0.0.1', port: 0, stateDir, bindings: { QUEUE_IDS: '*' } });
});
afterEach(closeRawWorkers);
afterAll(async () => {
  await road.stop();
  await rm(stateDir, { recursive: true, force: true });
});

const OWN = ['ack', 'answer', 'release', 'renew', 'load', 'frames', 'answer_settlements'];

async function worker(queue: string, features = OWN): Promise<RawWorker> {
  return await (await new RawWorker(road.url).connect(queue)).register('w', { features });
}

const post = (queue: string, path: string, body: object) =>
  fetch(`${road.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-queue-id': queue },
    body: JSON.stringify(body),
  });

const ask = (queue: string) => post(queue, '/v1/chat/completions', { messages: [] });

function settlements(...frames: object[]): AnswerRecord {
  return { type: 'settlements', stream: 0, text: JSON.stringify(frames) };
}

const resultOf = ({ job_id, fence_token }: JobFrame) => ({
  type: 'job_result',
  job_id,
  fence_token,
  result: { status: 'success' },
});

function answered(job: JobFrame, body: string): AnswerRecord[] {
  const stream = Number(job.stream_id);
  const data = new TextEncoder().encode(body);
  return [
    { type: 'head', stream, head: { status: 200, headers: { 'content-type': 'application/json' } } },
    { type: 'bytes', stream, offset: 0, data },
    { type: 'end', stream, size: data.byteLength },
  ];
}

it('frees its slot with the message that ends an answer, and is acknowledged on the control socket', async () => {
  const queue = `q${++queueNumber}`;
  const played = await worker(queue);
  const first = ask(queue);
  const job = await played.job();
  const second = ask(queue);
  played.answer(...answered(job, '{"n":1}'), settlements(resultOf(job)));
  expect(await (await first).json()).toEqual({ n: 1 });
  const next = await played.job(1);
  expect(await played.next('ack')).toMatchObject({ job_id: job.job_id, outcome: 'accepted' });
  played.answer(...answered(next, '{"n":2}'), settlements(resultOf(next)));
  expect(await (await second).json()).toEqual({ n: 2 });
  expect(await played.next('ack', 1)).toMatchObject({ job_id: next.job_id, outcome: 'accepted' });
});

it('settles a stored job too, whose slot a stored job takes that waits', async () => {
  const queue = `q${++queueNumber}`;
  const played = await worker(queue);
  const chat = (id: string) => ({
    id,
    job_type: 'chat_completion',
    config_id: 'cfg',
    payload: { messages: [] },
  });
  for (const id of ['a', 'b']) await post(queue, '/api/jobs', chat(id));
  played.answer(settlements(resultOf(await played.job())));
  expect(await played.next('ack')).toMatchObject({ job_id: 'a', outcome: 'accepted' });
  expect(await played.job(1)).toMatchObject({ job_id: 'b' });
});

it('hears on its control socket what no settlement is, and goes on', async () => {
  const queue = `q${++queueNumber}`;
  const played = await worker(queue);
  played.answer(settlements({ type: 'drain' }), { type: 'settlements', stream: 0, text: '{' });
  expect(await played.next('error')).toMatchObject({
    message: expect.stringContaining('"drain" on the answer'),
  });
  expect(await played.next('error', 1)).toMatchObject({ message: expect.stringContaining('not JSON') });
  const asked = ask(queue);
  const job = await played.job();
  played.answer(...answered(job, '{}'), settlements(resultOf(job)));
  expect((await asked).status).toBe(200);
});

it('loses its answer socket where it was not granted that', async () => {
  const played = await worker(`q${++queueNumber}`, ['ack', 'answer', 'frames']);
  played.answer(settlements({ type: 'drain' }));
  const closed = await until(() => played.answersClosed, 'its answer socket is closed');
  expect(closed).toEqual({ code: 1007, reason: 'settlements without the feature answer_settlements' });
  expect(played.closed).toBe(null);
});
