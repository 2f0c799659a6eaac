import { describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** The queue and relay objects in a real process, driven over HTTP and sockets. */
const road = startTestQueue();

const { newQueue } = road;

async function submit(queue: string, job: object | object[]): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${road.url}/api/jobs`, {
    method: 'POST',
    headers: { 'x-queue-id': queue },
    body: JSON.stringify(job),
  });
  return { status: response.status, body: await response.json() };
}

async function job(queue: string, id: string, wait = 0): Promise<JobView> {
  const response = await fetch(`${road.url}/api/jobs/${id}?wait=${wait}`, {
    headers: { 'x-queue-id': queue },
  });
  return (await response.json()) as JobView;
}

const chat = (id: string) => ({
  id,
  job_type: 'chat_completion',
  config_id: 'cfg',
  payload: { messages: [{ role: 'user', content: id }] },
});

describe('a queue object', () => {
  it('stores, pushes, settles and acknowledges a job, and tells whoever waits for it', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url).connect(queue)).register('w');
    expect(await submit(queue, chat('a'))).toMatchObject({ status: 201, body: { id: 'a', state: 'leased' } });
    const waiting = job(queue, 'a', 60);
    worker.result(await worker.job(), { status: 'success', answer: 42 });
    expect(await worker.next('ack')).toMatchObject({ job_id: 'a', outcome: 'accepted' });
    expect(await waiting).toMatchObject({ state: 'succeeded', result: { answer: 42 } });
  });

  it('says what comes of one event in one message, and takes several settlements in one', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url).connect(queue)).register('w', {
      capacity: 2,
    });
    const ids = ['one', 'other'];
    await submit(queue, ids.map(chat));
    const jobs = [await worker.job(0), await worker.job(1)];
    expect(worker.messages).toContainEqual(ids.map((job_id) => expect.objectContaining({ job_id })));
    const result = { status: 'success' };
    worker.send(jobs.map(({ job_id, fence_token }) => ({ type: 'job_result', job_id, fence_token, result })));
    for (const [index, job_id] of ids.entries())
      expect(await worker.next('ack', index)).toMatchObject({ job_id, outcome: 'accepted' });
    for (const id of ids) expect(await job(queue, id)).toMatchObject({ state: 'succeeded' });
  });

  it('takes a thousand jobs in one submission, each with its own answer', async () => {
    const queue = newQueue();
    const jobs = Array.from({ length: 1000 }, (_, n) => chat(`bulk-${n}`));
    const { status, body } = await submit(queue, [
      ...jobs.slice(0, 999),
      { job_type: 'a dance', payload: {} },
    ]);
    expect(status).toBe(200);
    const answers = body as { job?: JobView; error?: { message: string } }[];
    expect(answers.filter((answer) => answer.job?.state === 'pending')).toHaveLength(999);
    expect(answers[999]?.error?.message).toContain('job_type');
  });

  it('takes a submission of the longest body, whatever characters are in it', async () => {
    const text = `${'a'.repeat(950_000)}😀`;
    const jobs = Array.from({ length: 20 }, (_, n) => ({ ...chat(`long-${n}`), payload: { text } }));
    const { status, body } = await submit(newQueue(), jobs);
    expect(status).toBe(200);
    expect((body as { job?: JobView }[]).filter((answer) => answer.job)).toHaveLength(20);
  });

  it('refuses an engine’s request that is none, in an array too, and names the field', async () => {
    const request = (payload: object) => ({ job_type: 'engine_request', config_id: 'cfg', payload });
    const { status, body } = await submit(newQueue(), [
      request({ path: 'v1/score' }),
      request({ path: '/v1/score', body: { a: 1 } }),
      request({ path: '/v1/score', body: '{"a":1}' }),
    ]);
    expect(status).toBe(200);
    const answers = body as { job?: JobView; error?: { status: number; message: string } }[];
    expect(answers.map(({ error }) => error?.message.split(':')[0])).toEqual([
      'payload.path',
      'payload.body',
      undefined,
    ]);
  });

  it('moves a job by alarm when its worker vanishes and stays away', async () => {
    await road.restart({ RECONNECT_GRACE_SECONDS: '2' });
    const queue = newQueue();
    const first = await (await new RawWorker(road.url).connect(queue)).register('first');
    await submit(queue, chat('moved'));
    await first.job();
    const second = await (await new RawWorker(road.url).connect(queue)).register('second');
    first.vanish();
    const again = await second.job();
    expect(again).toMatchObject({ job_id: 'moved', attempt: 2 });
    second.result(again);
    expect(await job(queue, 'moved', 30)).toMatchObject({ state: 'succeeded', worker_id: 'second' });
  });

  it('knows a model whose worker had only just registered when the process was killed, and waits for it', async () => {
    const queue = newQueue();
    await (await new RawWorker(road.url).connect(queue)).register('w');
    await road.killAndRestart();
    const ask = async (model: string, headers = {}) => {
      const body = JSON.stringify({ model, messages: [] });
      const response = await fetch(`${road.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'x-queue-id': queue, ...headers },
        body,
      });
      return response.status;
    };
    const asked = ask('tiny');
    expect(await ask('huge', REFUSED_FIRST)).toBe(404);
    const back = await (await new RawWorker(road.url).connect(queue)).register('w');
    const job = await back.job();
    back.answerJson(job);
    back.result(job);
    expect(await asked).toBe(200);
  });

  it('loses nothing it acknowledged when the process is killed, and resumes the worker that comes back', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url).connect(queue)).register('w');
    await submit(queue, [chat('running'), chat('waiting')]);
    const running = await worker.job();
    await road.killAndRestart();
    const back = await (await new RawWorker(road.url).connect(queue)).register('w', {
      jobs: [{ job_id: 'running', fence_token: running.fence_token }],
    });
    expect(await back.next('registered')).toMatchObject({ resumed: ['running'], revoked: [] });
    back.result(running, { kept: true });
    const next = await back.job();
    expect(next.job_id).toBe('waiting');
    back.result(next);
    expect(await job(queue, 'running', 30)).toMatchObject({
      state: 'succeeded',
      attempts: 1,
      attempt_errors: [],
      result: { kept: true },
    });
    expect(await job(queue, 'waiting', 30)).toMatchObject({ state: 'succeeded' });
  });

  it('tells its workers to reconnect when the process is stopped in order', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url).connect(queue)).register('w');
    await road.restart();
    await until(() => worker.closed, 'the socket is closed');
    expect(worker.closed).toBe(1012);
  });

  it('answers pings without being asked, and junk with an error that names it', async () => {
    const worker = await (await new RawWorker(road.url).connect(newQueue())).register('w');
    worker.send('{"type":"ping"}');
    await worker.next('pong');
    worker.send('{"type":');
    expect((await worker.next('error')).message).toContain('not JSON');
    expect(worker.closed).toBeNull();
  });
});
