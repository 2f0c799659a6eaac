import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { withoutComments } from '../support/comments.ts';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import { bytes, closeRawWorkers, EVENT_STREAM, RawWorker } from '../support/raw-worker.ts';

/** A fault in the queue's rules, in a real queue: a trigger in its database throws in the middle of a dispatch. */
const TOKEN = 'secret';
const SHA256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';
let queue: MiniflareQueue;

beforeAll(async () => {
  const tokens = [{ name: 'all', sha256: SHA256, scopes: ['admin'] }];
  queue = await startMiniflareQueue({ TOKENS: JSON.stringify(tokens), RECONNECT_GRACE_SECONDS: '30' });
});
afterEach(closeRawWorkers);
afterAll(() => queue.stop());

async function ask(id: string, path: string, body?: object) {
  const response = await fetch(queue.url + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${TOKEN}`, 'x-queue-id': id },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const submit = (id: string, job: string, configId = 'cfg') =>
  ask(id, '/api/jobs', {
    id: job,
    job_type: 'chat_completion',
    config_id: configId,
    payload: { messages: [] },
  });

async function worker(id: string, name: string, more: Record<string, unknown> = {}): Promise<RawWorker> {
  return await (await new RawWorker(queue.url, TOKEN).connect(id)).register(name, more);
}

/** A worker is given a job in the command that stores it, or later. */
const WAYS = ['INSERT', 'UPDATE'];

/** From now on no worker can be given this job. */
async function plant(id: string, job: string): Promise<void> {
  const isLeased = `NEW.id = '${job}' AND NEW.state = 'leased'`;
  const raise = `BEGIN SELECT RAISE(ABORT, 'planted'); END`;
  for (const way of WAYS) {
    await queue.sql(id, `CREATE TRIGGER planted_${way} BEFORE ${way} ON jobs WHEN ${isLeased} ${raise}`);
  }
}

async function heal(id: string): Promise<void> {
  for (const way of WAYS) await queue.sql(id, `DROP TRIGGER planted_${way}`);
}

describe('a queue that fails in the middle of its work', () => {
  it('tells who asked, lets nothing of it out, and starts again: nobody else notices', async () => {
    const busy = await worker('q', 'busy');
    const idle = await worker('q', 'idle', { config_id: 'other', instance: { id: 'idle', models: ['big'] } });
    await submit('q', 'running');
    const running = await busy.job();
    const waiter = ask('q', '/api/jobs/running?wait=60');
    const caller = ask('q', '/v1/chat/completions', { model: 'tiny', messages: [] });
    await until(async () => (await ask('q', '/health')).body.pending === 1, 'the caller waits for a slot');

    await plant('q', 'broken');
    expect(await submit('q', 'broken', 'other')).toMatchObject({
      status: 500,
      body: { error: { type: 'api_error' } },
    });
    await until(() => busy.closed && idle.closed, 'the workers are cut off');
    expect(idle.frames.filter(({ type }) => type === 'job')).toEqual([]);
    expect((await ask('q', '/api/jobs/broken')).status).toBe(404);
    await heal('q');

    const { job_id, fence_token } = running;
    const back = await worker('q', 'busy', { jobs: [{ job_id, fence_token }] });
    expect(await back.next('registered')).toMatchObject({ resumed: ['running'] });
    back.result(running);
    expect((await waiter).body).toMatchObject({ state: 'succeeded', attempts: 1, attempt_errors: [] });
    const call = await back.job();
    expect(call.fence_token).toBeGreaterThan(fence_token);
    back.answerJson(call, '{"id":"x"}');
    expect(await caller).toEqual({ status: 200, body: { id: 'x' } });
  });

  it('leaves an answer alone that has begun', async () => {
    const busy = await worker('streams', 'busy');
    await worker('streams', 'idle', { config_id: 'other', instance: { id: 'idle', models: ['big'] } });
    const answering = fetch(`${queue.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'x-queue-id': 'streams' },
      body: JSON.stringify({ model: 'tiny', messages: [], stream: true }),
    });
    const { job_id, fence_token, stream_id } = await busy.job();
    const stream = stream_id as number;
    const [first, last] = [bytes('data: 1\n\n'), bytes('data: [DONE]\n\n')];
    busy.answer(
      { type: 'head', stream, head: EVENT_STREAM },
      { type: 'bytes', stream, offset: 0, data: first },
    );
    const answer = await answering;

    await plant('streams', 'broken');
    await submit('streams', 'broken', 'other');
    await until(() => busy.closed, 'the worker is cut off');
    await heal('streams');
    const back = await worker('streams', 'busy', { jobs: [{ job_id, fence_token }] });
    back.answer(
      { type: 'bytes', stream, offset: first.byteLength, data: last },
      { type: 'end', stream, size: first.byteLength + last.byteLength },
    );
    expect(withoutComments(await answer.text())).toBe('data: 1\n\ndata: [DONE]\n\n');
  });

  it('is not reset again by a program that repeats the submission that it fails at', async () => {
    await worker('again', 'w', { config_id: 'other', instance: { id: 'w', models: ['big'] } });
    await plant('again', 'broken');
    expect((await submit('again', 'broken', 'other')).status).toBe(500);
    const back = await worker('again', 'w', { config_id: 'other' });
    for (let n = 0; n < 3; n++) expect((await submit('again', 'broken', 'other')).status).toBe(500);
    expect((await submit('again', 'other', 'cfg')).status).toBe(201);
    expect(back.closed).toBeNull();
    await heal('again');
  });

  it('undoes the settlement that led there, and takes it when it comes again', async () => {
    const first = await worker('settling', 'w');
    await submit('settling', 'done');
    const job = await first.job();
    await submit('settling', 'broken');
    await plant('settling', 'broken');
    first.result(job);
    await until(() => first.closed, 'the worker is cut off');
    expect(first.frames.filter(({ type }) => type === 'ack')).toEqual([]);
    await heal('settling');
    const { job_id, fence_token } = job;
    const back = await worker('settling', 'w', { jobs: [{ job_id, fence_token }] });
    back.result(job);
    expect(await back.next('ack')).toMatchObject({ job_id: 'done', outcome: 'accepted' });
    const next = await back.job();
    expect(next.job_id).toBe('broken');
    expect(next.fence_token).toBeGreaterThan(fence_token);
  });
});
